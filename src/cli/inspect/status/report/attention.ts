/** What the parts of the report have in common. */
import type { Unread } from '../../read-cluster/reading.ts';

export const PARTS = [
  'leader',
  'authority',
  'servingCerts',
  'servedCerts',
  'injectionTargets',
  'admissionPolicies',
  'restoreWindows',
] as const;

/** A problem that needs the attention of the user. */
export interface Attention {
  readonly part: (typeof PARTS)[number];
  /** E.g. `AdmissionPolicy servers`. */
  readonly object: string;
  /** What is wrong, and what to do. */
  readonly message: string;
  /** A command that shows more or helps. */
  readonly command?: string | undefined;
}

/** The problems of one part; none or one of an object. */
export type Problems = readonly Omit<Attention, 'part'>[];

export interface Judged<Part> {
  readonly part: Part;
  readonly problems: Problems;
}

/** A part that lists objects. */
export interface Listing<Row> {
  readonly unread: readonly Unread[];
  readonly items: readonly Row[];
}
