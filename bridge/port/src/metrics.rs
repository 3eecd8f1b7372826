//! Figures of a gateway's own, for the metrics of the program that it runs in.

/// What counts in a gateway. Asked each time that the metrics are read.
pub trait GatewayMetrics: Send + Sync {
    /// The figures now. Names begin with the gateway's, and have no prefix of the program and no `_total`.
    fn families(&self) -> Vec<MetricFamily>;
}

/// A figure, once for each set of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// Its name.
    pub name: &'static str,
    /// What it is, in one line.
    pub help: &'static str,
    /// Its values.
    pub values: MetricValues,
}

/// The values of a figure.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValues {
    /// Values that rise and fall.
    Gauge(Vec<LabelledValue>),
    /// Values that only rise.
    Counter(Vec<LabelledValue>),
    /// How often something was so large.
    Histogram {
        /// Upper bounds, rising.
        bounds: &'static [f64],
        /// How often each bound was not exceeded and the one before was, and how often the last was.
        counts: Vec<u64>,
        /// All values together.
        sum: f64,
    },
}

/// A value with its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledValue {
    /// Names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: u64,
}

impl MetricFamily {
    /// One that rises and falls, without values.
    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        let values = MetricValues::Gauge(Vec::new());
        Self { name, help, values }
    }

    /// One that only rises, without values.
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        let values = MetricValues::Counter(Vec::new());
        Self { name, help, values }
    }

    /// A histogram; `counts` has one more than `bounds`.
    pub fn histogram(
        name: &'static str,
        help: &'static str,
        bounds: &'static [f64],
        counts: Vec<u64>,
        sum: f64,
    ) -> Self {
        let values = MetricValues::Histogram { bounds, counts, sum };
        Self { name, help, values }
    }

    /// With a value with these labels; a histogram has none.
    #[must_use]
    pub fn with(mut self, labels: &[(&'static str, &str)], value: u64) -> Self {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let labelled = LabelledValue {
            labels: labels.collect(),
            value,
        };
        if let MetricValues::Gauge(values) | MetricValues::Counter(values) = &mut self.values {
            values.push(labelled);
        }
        self
    }
}
