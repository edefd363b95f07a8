/** A steady load of dry runs. A policy must refuse half of them. A row describes one event. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'yaml';

import { printTable, whole } from '../../../scripts/bench/table.ts';
import type { ControlPlane } from '../control-plane.ts';
import { startLoad } from '../load.ts';
import { createPlainClient, type PlainAnswer } from '../plain-client.ts';

export const GOVERNED_NAMESPACE = 'shop';
const MESSAGE = 'set the label owner';
const PATH = `/api/v1/namespaces/${GOVERNED_NAMESPACE}/configmaps?dryRun=All`;

const PAGE = join(import.meta.dirname, '..', '..', '..', 'docs', 'installing.md');
export const GOVERNING_POLICY = parse(
  /```yaml\n(?<policy># owner-label\.yaml\n.*?)```/s.exec(readFileSync(PAGE, 'utf8'))?.groups?.policy ?? '',
) as object; // a test of the page applies it

export interface Row {
  readonly event: string;
  readonly right: number;
  readonly wrong: number;
  readonly failed: number;
  readonly dark: number;
  readonly seconds: number;
  readonly troubles: readonly string[];
}

/** `either`: also the answer of a cluster in which no policy holds. */
type Expected = 'verdicts' | 'either';

export type GovernedLoad = ReturnType<typeof startGovernedLoad>;

const AFTER_MS = 3_000;
const GAP_MS = 1_000;
/** A machine of two cores has time for pods besides this. */
const PER_SECOND = 40;
/** The API server waits 5 s for a webhook that does not answer. */
const LANES = 64;

export function startGovernedLoad(plane: Pick<ControlPlane, 'server' | 'ca' | 'token'>) {
  const client = createPlainClient(plane, LANES);
  const rows: Row[] = [];
  let expected: Expected = 'verdicts';
  let rightAt: number[] = [];
  let [wrong, failed]: [string[], string[]] = [[], []];

  const load = startLoad({
    perSecond: PER_SECOND,
    lanes: LANES,
    request: async (n) => {
      const isGood = n % 2 === 0;
      const metadata = { name: `load-${n}`, ...(isGood ? { labels: { owner: 'team' } } : {}) };
      const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata };
      const answer = await client.ask({ method: 'POST', path: PATH, body });
      const verdict = judge(isGood, answer, expected);
      if (verdict === 'right') rightAt.push(performance.now());
      else (verdict === 'wrong' ? wrong : failed).push(`${answer.code}: ${messageOf(answer.text)}`);
    },
  });

  return {
    during: async (event: string, work: () => Promise<unknown>, judged: Expected = 'verdicts') => {
      [rightAt, wrong, failed, expected] = [[], [], [], judged];
      const from = performance.now();
      await work();
      await sleep(AFTER_MS);
      const to = performance.now();
      const row = {
        event,
        right: rightAt.length,
        wrong: wrong.length,
        failed: failed.length,
        dark: darkSeconds([from, ...rightAt.toSorted((a, b) => a - b), to]),
        seconds: (to - from) / 1_000,
        troubles: [...wrong.slice(0, 3), ...new Set(failed)].slice(0, 6),
      };
      rows.push(row);
      return row;
    },
    print: () => {
      printTable([
        ['event', 'right', 'wrong', 'failed', 'seconds without service', 'seconds'],
        ...rows.map(({ event, right, dark, seconds, ...row }) => [
          ...[event, whole(right), whole(row.wrong), whole(row.failed)],
          ...[dark.toFixed(1), seconds.toFixed(1)],
        ]),
      ]);
    },
    stop: async () => {
      await client.stop();
      await load.stop();
    },
  };
}

/** Of a Status; without the address of the webhook, which hides the reason. */
const messageOf = (text: string): string =>
  (/"message":"(?<message>(?:[^"\\]|\\.)*)"/.exec(text)?.groups?.message ?? text)
    .replaceAll(/https:[^ ]*/g, '…')
    .slice(0, 400);

/** A verdict that the policy does not give is wrong. No verdict is a failure. */
export function judge(
  isGood: boolean,
  { code, text }: PlainAnswer,
  expected: Expected,
): 'right' | 'wrong' | 'failed' {
  const isRefused = code >= 400 && code < 500 && text.includes(MESSAGE);
  if (code !== 201 && !isRefused) return 'failed';
  if (isRefused) return isGood ? 'wrong' : 'right';
  return isGood || expected === 'either' ? 'right' : 'wrong';
}

export function darkSeconds(times: readonly number[]): number {
  const gaps = times.slice(1).map((time, index) => time - (times[index] ?? time));
  return gaps.filter((gap) => gap > GAP_MS).reduce((sum, gap) => sum + gap, 0) / 1_000;
}
