import type { Api } from './api.ts';

type Run = (api: Api) => Promise<void>;

interface CaseOptions {
  readonly run: Run;
  /** managedFields are removed from the transcript unless the case is about them. */
  readonly keepManagedFields?: boolean;
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
