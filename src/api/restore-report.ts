import type { KubeObject, ObjectMeta } from '../json/kube-object.ts';
import { relinkItem, violation } from './restore-findings.ts';
import { array, integer, object, optional, string, type TypeOf } from './schema.ts';

/** How many findings one RestoreReport lists: an object in etcd is limited to 1.5 MiB. */
export const REPORT_ITEMS = 500;

const spec = object(
  {
    window: string({ description: 'The RestoreWindow whose sweep this is about.' }),
    part: integer({ description: 'Which part of the report, from 0.', minimum: 0 }),
    parts: integer({ description: 'How many parts there are.', minimum: 1 }),
    violations: optional(array(violation, { description: 'Violations.', maxItems: REPORT_ITEMS })),
    relink: optional(array(relinkItem, { description: 'Owner references.', maxItems: REPORT_ITEMS })),
  },
  { description: 'A part of the report.' },
);

/** The schema of a RestoreReport without `apiVersion`, `kind` and `metadata`. */
export const restoreReportSchema = object(
  { spec },
  { description: 'What a sweep found, where a RestoreWindow cannot hold all of it. Written by Gatehouse.' },
);

export type RestoreReportSpec = TypeOf<typeof spec>;

export interface RestoreReport extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: RestoreReportSpec;
}
