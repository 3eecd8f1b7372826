//! What breaks while a task is under way.

use super::*;
