import type { Api } from './api.ts';
import type { Transcript } from './transcript.ts';

export type Run = (api: Api) => Promise<void>;

export interface CaseOptions {
  readonly run: Run;
  /** managedFields are removed from the transcript unless the case is about them. */
  readonly keepManagedFields?: boolean;
  /** Removes parts of the transcript that may differ between releases; a comment gives the reason. */
  readonly normalise?: (transcript: Transcript) => unknown;
}

/** A case for newer servers only: the expected answer is written by hand, with its source. */
export interface NewerCaseOptions extends CaseOptions {
  /** The first minor release with this behaviour, such as `1.32`. */
  readonly since: string;
  /** Must match; the transcript may contain more. */
  readonly expected: readonly unknown[];
}

export interface ConformanceCase extends CaseOptions {
  /** Unique: the group and a sentence. */
  readonly name: string;
  readonly newer?: Pick<NewerCaseOptions, 'since' | 'expected'>;
}

/** Cases keyed by their sentences. */
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
