/** The bypass search: generates paths, runs them in parallel, and reduces the first that fails to a minimal one. */
import fc from 'fast-check';

import type { PlainAnswer, PlainClient } from '../support/plain-client.ts';
import { GIVEN_TEXT, runPath, type Outcome } from './run-path.ts';
import { pathsOf, type Step, type Via, type Write } from './steps.ts';

export interface SearchOptions {
  readonly client: PlainClient;
  readonly seed: number;
  readonly count: number;
  readonly steps: number;
  readonly lanes: number;
  /** Several replicas answer: steps change only what all replicas have seen. Default: 1. */
  readonly replicas?: number;
  readonly reduceMs: number;
  /** How many reviews Gatehouse has refused with 429 because of overload. */
  readonly overloads: () => Promise<number>;
  readonly replay?: string | undefined;
}

export interface Tally {
  readonly stored: Map<Via, number>;
  readonly refused: Map<Via, number>;
  readonly reasons: Map<string, number>;
}

export interface Found {
  readonly paths: number;
  readonly writes: number;
  readonly tally: Tally;
  readonly failure: string | undefined;
}

/** Texts of refusals, one for each check. The search expects to see all of them. */
export const REASONS = [
  'spec.bin',
  'spec.spare',
  'spec.home',
  'spec.color',
  'spec.zone',
  'spec.serial',
  'does not fit',
  'root owns no widgets',
  'the level never falls',
  'too many replicas',
  'a widget is never broken',
  'a kept object stays',
  'only good ones',
  'is still referenced by',
  'a note is no secret',
] as const;

export async function search(options: SearchOptions): Promise<Found> {
  const { client, seed, count, overloads, replay } = options;
  const tally: Tally = { stored: new Map(), refused: new Map(), reasons: new Map() };
  const run = `p${Date.now().toString(36)}`;
  let namespaces = 0;
  let writes = 0;
  let overloadsBefore = await overloads();
  const attempt: Attempt = async (path) => {
    const outcome = await runPath(client, `${run}-${(namespaces += 1)}`, path, (write, answer) => {
      writes += 1;
      record(tally, write, answer);
    });
    if (outcome.violations.length === 0 || !outcome.violations.every(isAboutIgnore)) return outcome;
    const now = await overloads();
    const isExplained = now > overloadsBefore;
    overloadsBefore = now;
    return isExplained ? { ...outcome, violations: [] } : outcome;
  };
  if (replay !== undefined) {
    const path = JSON.parse(replay) as readonly Step[];
    const failure = report(path, await attempt(path));
    return { paths: 1, writes, tally, failure };
  }
  const paths = pathsOf(options.steps, options.replicas);
  const failed = await firstFailure(fc.sample(paths, { numRuns: count, seed }), options.lanes, attempt);
  const failure = failed === undefined ? undefined : await reduce(attempt, paths, failed, options);
  return { paths: count, writes, tally, failure };
}

/** The policies on Deployments have `failurePolicy: Ignore`: overload opens them, as documented. */
const isAboutIgnore = (violation: string) => violation.startsWith('deployments/');

type Attempt = (path: readonly Step[]) => Promise<Outcome>;

async function firstFailure(
  generated: readonly (readonly Step[])[],
  lanes: number,
  attempt: Attempt,
): Promise<number | undefined> {
  let next = 0;
  let failed: number | undefined;
  const lane = async () => {
    while (failed === undefined && next < generated.length) {
      const index = next++;
      const { violations } = await attempt(generated[index] ?? []);
      if (violations.length > 0) failed ??= index;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return failed;
}

async function reduce(
  attempt: Attempt,
  paths: fc.Arbitrary<readonly Step[]>,
  index: number,
  { seed, reduceMs }: SearchOptions,
): Promise<string> {
  const until = performance.now() + reduceMs;
  let last: { readonly path: readonly Step[]; readonly outcome: Outcome } | undefined;
  const fails = async (path: readonly Step[]) => {
    const outcome = await attempt(path);
    if (outcome.violations.length === 0) return false;
    last = { path, outcome };
    return true;
  };
  const property = fc.asyncProperty(paths, async (path) => !(await fails(path)));
  await fc.check(property, { seed, path: String(index), numRuns: 1, interruptAfterTimeLimit: reduceMs });
  // fast-check keeps both writes of a race, or none.
  for (let changed = true; changed && last !== undefined && performance.now() < until;) {
    changed = false;
    for (const simpler of withFewerWrites(last.path)) {
      changed = await fails(simpler);
      if (changed) break;
    }
  }
  const found = last && report(last.path, last.outcome);
  return found ?? `Path ${index} of seed ${seed} failed once, but not a second time: it depends on a race.`;
}

const withFewerWrites = (path: readonly Step[]): readonly (readonly Step[])[] =>
  path.flatMap((step, index) => [
    path.toSpliced(index, 1),
    ...(step.length > 1 ? step.map((write): readonly Step[] => path.toSpliced(index, 1, [write])) : []),
  ]);

function report(path: readonly Step[], { transcript, violations }: Outcome): string | undefined {
  if (violations.length === 0) return undefined;
  return [
    'A stored object violates a policy.',
    `given: ${GIVEN_TEXT}`,
    ...transcript,
    ...violations.map((line) => `stored: ${line}`),
    `replay: GATEHOUSE_BYPASS_PATH='${JSON.stringify(path)}'`,
  ].join('\n');
}

function record({ stored, refused, reasons }: Tally, { via }: Write, { code, body }: PlainAnswer): void {
  const isStored = code >= 200 && code < 300;
  count(isStored ? stored : refused, via);
  const message = typeof body.message === 'string' ? body.message : '';
  if (isStored || !message.includes('denied the request')) return;
  for (const reason of REASONS) if (message.includes(reason)) count(reasons, reason);
}

const count = <T>(map: Map<T, number>, key: T) => map.set(key, (map.get(key) ?? 0) + 1);
