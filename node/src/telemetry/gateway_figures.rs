//! The figures of gateways as Prometheus reads them.

use std::fmt;

use agentanycast_gateway::metrics::{LabelledValue, MetricFamily, MetricValues};
use prometheus_client::{
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
};

/// Writes down what gateways count.
pub(super) fn encode(families: &[MetricFamily], out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for family in families {
        let kind = match family.values {
            MetricValues::Gauge(_) => MetricType::Gauge,
            MetricValues::Counter(_) => MetricType::Counter,
            MetricValues::Histogram { .. } => MetricType::Histogram,
        };
        let mut metric = out.encode_descriptor(family.name, family.help, None, kind)?;
        match &family.values {
            MetricValues::Gauge(values) => {
                for LabelledValue { labels, value } in values {
                    let value = i64::try_from(*value).unwrap_or(i64::MAX);
                    if labels.is_empty() {
                        metric.encode_gauge(&value)?;
                    } else {
                        metric.encode_family(&labels.as_slice())?.encode_gauge(&value)?;
                    }
                }
            }
            MetricValues::Counter(values) => {
                for LabelledValue { labels, value } in values {
                    let labels = labels.as_slice();
                    let mut metric = metric.encode_family(&labels)?;
                    metric.encode_counter::<NoLabelSet, _, f64>(value, None)?;
                }
            }
            MetricValues::Histogram { bounds, counts, sum } => {
                let above = std::iter::once(f64::INFINITY);
                let bounds = bounds.iter().copied().chain(above);
                let buckets: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
                metric.encode_histogram::<NoLabelSet>(*sum, counts.iter().sum(), &buckets, None)?;
            }
        }
    }
    Ok(())
}
