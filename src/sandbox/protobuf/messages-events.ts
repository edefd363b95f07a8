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

const EVENTS_EVENT_SERIES = message({
  count: [1, given(INT)],
  lastObservedTime: [2, MICRO_TIME],
});

export const EVENTS_EVENT = message({
  metadata: [1, OBJECT_META],
  eventTime: [2, MICRO_TIME],
  series: [3, EVENT_SERIES],
  reportingController: [4, TEXT],
  reportingInstance: [5, TEXT],
  action: [6, TEXT],
  reason: [7, TEXT],
  regarding: [8, OBJECT_REFERENCE],
  related: [9, OBJECT_REFERENCE],
  note: [10, TEXT],
  type: [11, TEXT],
  deprecatedSource: [12, EVENT_SOURCE],
  deprecatedFirstTimestamp: [13, TIME],
  deprecatedLastTimestamp: [14, TIME],
  deprecatedCount: [15, INT],
});
