import { relinkItem, violation } from './restore-findings.ts';
import { array, integer, object, string, type KubeObjectOf, type TypeOf } from './schema.ts';

/** Maximum number of findings in one RestoreReport: an object in etcd is limited to 1.5 MiB. */
export const REPORT_ITEMS = 500;

const spec = object('One part of the report.', {
  window: string('The RestoreWindow of the sweep.'),
  part: integer('Index of this part, from 0.', { minimum: 0 }),
  parts: integer('Number of parts.', { minimum: 1 }),
  'violations?': array('Violations.', violation, { maxItems: REPORT_ITEMS }),
  'relink?': array('Owner references.', relinkItem, { maxItems: REPORT_ITEMS }),
});

/** The schema of a RestoreReport without `apiVersion`, `kind` and `metadata`. */
export const restoreReportSchema = object(
  'Findings of a sweep that do not fit into its RestoreWindow. Written by Gatehouse.',
  { spec },
);

export type RestoreReportSpec = TypeOf<typeof spec>;
export type RestoreReport = KubeObjectOf<typeof restoreReportSchema>;
