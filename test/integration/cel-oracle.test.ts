// suite: processes
/** Gatehouse's CEL against Kubernetes itself: recordings, generated expressions and rules; nightly also the oldest. */
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';

import { checkRules } from '../../src/machinery/schema/rules/rules.ts';
import { caseFrom, ruleCaseFrom } from '../support/cel/generated.ts';
import { isSameVerdict, ourAnswer, readMatrix, type Answer, type MatrixCase } from '../support/cel/matrix.ts';
import {
  askAbout,
  buildOracle,
  CORPUS,
  MATRIX,
  oracleProblem,
  recordedCorpus,
  type Oracle,
  type OracleAnswer,
} from '../support/cel/record.ts';
import { isNightly } from '../support/nightly.ts';
import { createSeeded } from '../support/seeded.ts';

const SEED = Number(process.env.GATEHOUSE_SEED ?? Date.now() % 1_000_000);
const EXPRESSIONS = isNightly ? 60_000 : 3_000;
const RULES = isNightly ? 20_000 : 1_500;
const BUILD_MS = 30 * 60_000;
const PATIENCE_MS = isNightly ? 10 * 60_000 : 120_000;
const OLDEST = 30;
/** Go's parser of URLs, which changed without Kubernetes; and the limit of 250 levels: see cel-matrix.test.ts. */
const ELSEWHERE = /^url\("http:\/\/::1"\)|^1 \+ \(1 \+ \(1|^x\.\?a\.\?a/;

const problem = oracleProblem();
if (problem !== undefined) console.warn(`cel-oracle: skipped: ${problem}`);

/** False if the API server panics. */
const hasVerdict = ({ error }: OracleAnswer): boolean => error?.startsWith('internal error') !== true;

function differing(
  cases: readonly MatrixCase[],
  theirs: readonly OracleAnswer[],
  isCompared: (ours: Answer) => boolean = () => true,
) {
  return cases.flatMap((one, index) => {
    const [ours, kubernetes] = [ourAnswer(one), theirs[index] ?? {}];
    if (!hasVerdict(kubernetes) || !isCompared(ours) || isSameVerdict(ours, kubernetes)) return [];
    return [{ expression: one.expression, bindings: one.bindings, ours, kubernetes }];
  });
}

const generated = (): readonly MatrixCase[] => {
  const chance = createSeeded(SEED);
  return Array.from({ length: EXPRESSIONS }, () => caseFrom(chance));
};

describe.skipIf(problem !== undefined)(
  `the newest Kubernetes, seed ${SEED}`,
  { timeout: PATIENCE_MS },
  () => {
    let oracle: Oracle;
    beforeAll(async () => {
      oracle = await buildOracle('newest');
    }, BUILD_MS);

    test('gives the recorded answers: otherwise run scripts/record-cel.ts', async () => {
      const cases = readMatrix(MATRIX);
      const answers = await askAbout(oracle, cases);
      const stale = cases.filter(
        ({ kubernetes }, index) =>
          hasVerdict(kubernetes) &&
          (!isSameVerdict(answers[index] ?? {}, kubernetes) || answers[index]?.cost !== kubernetes.cost),
      );
      expect(stale).toEqual([]);
      expect(await recordedCorpus(oracle)).toBe(readFileSync(CORPUS, 'utf8'));
    });

    test('gives the verdict of Gatehouse to generated expressions', async () => {
      const cases = generated();
      const theirs = await askAbout(oracle, cases);
      expect(differing(cases, theirs)).toEqual([]);
      const share = (has: (answer: OracleAnswer) => boolean) => theirs.filter(has).length / theirs.length;
      expect(share(({ result }) => result !== undefined)).toBeGreaterThan(0.3);
      expect(share(({ error }) => error !== undefined)).toBeGreaterThan(0.05);
      const counted = cases.flatMap((one, index) => {
        const { result, cost } = theirs[index] ?? {};
        return result === undefined ? [] : [ourAnswer(one).cost === cost];
      });
      expect(counted.filter(Boolean).length / counted.length).toBeGreaterThan(0.97);
    });

    test('gives the verdict of Gatehouse to generated rules about lists, sets and maps', async () => {
      const chance = createSeeded(SEED);
      const cases = Array.from({ length: RULES }, () => ruleCaseFrom(chance));
      const theirs = await oracle(cases);
      const accepted = cases.flatMap((one, index) => {
        const { compileError, causes = [] } = theirs[index] ?? {};
        if (compileError !== undefined) return [];
        const ours = checkRules(one.object, undefined, one.schema).map(({ message }) => message);
        return [{ ...one, ours, kubernetes: causes.map(({ detail }) => detail) }];
      });
      expect(accepted.filter(({ ours, kubernetes }) => ours.length > 0 !== kubernetes.length > 0)).toEqual(
        [],
      );
      const broken = accepted.filter(({ kubernetes }) => kubernetes.length > 0);
      expect(broken.length / accepted.length).toBeGreaterThan(0.2);
      expect(broken.length / accepted.length).toBeLessThan(0.8);
    });
  },
);

describe.skipIf(problem !== undefined || !isNightly)(
  `the oldest Kubernetes, seed ${SEED}`,
  { timeout: PATIENCE_MS },
  () => {
    let oracle: Oracle;
    beforeAll(async () => {
      oracle = await buildOracle('oldest');
    }, BUILD_MS);

    test('agrees about the recorded and generated expressions that it supports', async () => {
      const isOld = ({ compileError, since = 0 }: Answer) => compileError === undefined && since <= OLDEST;
      for (const cases of [readMatrix(MATRIX), generated()]) {
        const theirs = await askAbout(oracle, cases);
        const others = differing(cases, theirs, isOld).filter(
          ({ expression }) => !ELSEWHERE.test(expression),
        );
        expect(others).toEqual([]);
      }
    });
  },
);
