import { OBJECT_REFERENCE } from './messages-core.ts';
import { EVENT_SOURCE } from './messages-core-event.ts';
import { OBJECT_META } from './messages-meta.ts';
import { MICRO_TIME, TIME } from './values.ts';
import { INT, TEXT, given, message } from './wire.ts';

const EVENT_SERIES = message({
  count: [1, given(INT)],
  lastObservedTime: [2, MICRO_TIME],
});

export const EVENT = message({
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
