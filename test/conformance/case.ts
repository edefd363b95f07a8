import type { Api } from './api.ts';
import type { Transcript } from './transcript.ts';

export type Run = (api: Api) => Promise<void>;

export interface CaseOptions {
  readonly run: Run;
  /** managedFields are removed from the transcript unless the case is about them. */
  readonly keepManagedFields?: boolean;
  /** Removes parts of the transcript that may differ between releases; a comment gives the reason. */
  readonly normalise?: (transcript: Transcript) => unknown;
  /** The first minor release with this behaviour, such as `1.32`, if the oldest supported one has another; a comment gives the source. */
  readonly since?: string;
}

export interface ConformanceCase extends CaseOptions {
  /** Unique: the group and a sentence. */
  readonly name: string;
}

/** Cases keyed by their sentences. */
export function group(
  theme: string,
  cases: Readonly<Record<string, Run | CaseOptions>>,
): readonly ConformanceCase[] {
  return Object.entries(cases).map(([sentence, value]): ConformanceCase => {
    const options = typeof value === 'function' ? { run: value } : value;
    return { ...options, name: `${theme}: ${sentence}` };
  });
}

/** Whether a server of this minor release of Kubernetes 1 answers as recorded. */
export function runsOn(minor: number, { since }: ConformanceCase): boolean {
  return since === undefined || minor >= Number(since.split('.')[1]);
}
