import { relinkItem, violation } from './restore-findings.ts';
import { array, integer, object, string, type KubeObjectOf, type TypeOf } from './schema.ts';

/** How many findings one RestoreReport lists: an object in etcd is limited to 1.5 MiB. */
export const REPORT_ITEMS = 500;

const spec = object('A part of the report.', {
  window: string('The RestoreWindow whose sweep this is about.'),
  part: integer('Which part of the report, from 0.', { minimum: 0 }),
  parts: integer('How many parts there are.', { minimum: 1 }),
  'violations?': array('Violations.', violation, { maxItems: REPORT_ITEMS }),
  'relink?': array('Owner references.', relinkItem, { maxItems: REPORT_ITEMS }),
});

/** The schema of a RestoreReport without `apiVersion`, `kind` and `metadata`. */
export const restoreReportSchema = object(
  'What a sweep found, where a RestoreWindow cannot hold all of it. Written by Gatehouse.',
  { spec },
);

export type RestoreReportSpec = TypeOf<typeof spec>;
export type RestoreReport = KubeObjectOf<typeof restoreReportSchema>;
