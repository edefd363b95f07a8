import { OBJECT_REFERENCE } from './messages-core.ts';
import { OBJECT_META } from './messages-meta.ts';
import { MICRO_TIME, TIME } from './values.ts';
import { INT, TEXT, given, message } from './wire.ts';

export const EVENT_SOURCE = message({
  component: [1, TEXT],
  host: [2, TEXT],
});

const EVENT_SERIES = message({
  count: [1, INT],
  lastObservedTime: [2, MICRO_TIME],
});

export const EVENT = message({
  metadata: [1, OBJECT_META],
  involvedObject: [2, OBJECT_REFERENCE],
  reason: [3, TEXT],
  message: [4, TEXT],
  source: [5, EVENT_SOURCE],
  firstTimestamp: [6, TIME],
  lastTimestamp: [7, TIME],
  count: [8, INT],
  type: [9, TEXT],
  eventTime: [10, MICRO_TIME],
  series: [11, EVENT_SERIES],
  action: [12, TEXT],
  related: [13, OBJECT_REFERENCE],
  reportingComponent: [14, given(TEXT)],
  reportingInstance: [15, given(TEXT)],
});
