import type { Api } from './api.ts';
import type { Transcript } from './transcript.ts';

export type Run = (api: Api) => Promise<void>;

export interface CaseOptions {
  readonly run: Run;
  /** managedFields are left out of a transcript unless the case is about them. */
  readonly keepManagedFields?: boolean;
  /** Takes out of a transcript what may differ between releases; the reason stands beside it. */
  readonly normalise?: (transcript: Transcript) => unknown;
}

/** A case that only newer servers can pass: what they answer is written by hand, with its source. */
export interface NewerCaseOptions extends CaseOptions {
  /** The first minor release that behaves like this, as in `1.32`. */
  readonly since: string;
  /** Has to match: what the transcript holds beyond it does not count. */
  readonly expected: readonly unknown[];
}

export interface ConformanceCase extends CaseOptions {
  /** Unique: the group and a sentence. */
  readonly name: string;
  readonly newer?: Pick<NewerCaseOptions, 'since' | 'expected'>;
}

/** Cases by their sentences, which is how a file of cases reads best. */
export function group(
  theme: string,
  cases: Readonly<Record<string, Run | CaseOptions | NewerCaseOptions>>,
): readonly ConformanceCase[] {
  return Object.entries(cases).map(([sentence, value]): ConformanceCase => {
    const name = `${theme}: ${sentence}`;
    if (typeof value === 'function') return { name, run: value };
    if ('since' in value) return { ...value, name, newer: { since: value.since, expected: value.expected } };
    return { ...value, name };
  });
}

/** Whether a server of this minor release of Kubernetes 1 can run the case. */
export function runsOn(minor: number, { newer }: ConformanceCase): boolean {
  return newer === undefined || minor >= Number(newer.since.split('.')[1]);
}
