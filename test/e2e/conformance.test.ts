/** What the conformance suite expects of the sandbox is what a real kube-apiserver answers, now and not only when recorded. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ALL_CASES } from '../conformance/all-cases.ts';
import { runsOn } from '../conformance/case.ts';
import { readRecording, writeRecording } from '../conformance/recording.ts';
import { observeAll } from '../conformance/run-all.ts';
import { startSubject, type Subject } from '../conformance/subject.ts';
import { testsSandbox } from '../support/control-plane.ts';

/** Writes the recording anew instead of comparing with it; never from what the sandbox says. */
const RECORD = process.env.GATEHOUSE_RECORD === '1' && !testsSandbox();

let subject: Subject;
let observed: ReadonlyMap<string, Promise<unknown>>;

beforeAll(async () => {
  subject = await startSubject();
  const cases = ALL_CASES.filter((conformanceCase) => runsOn(subject.version.minor, conformanceCase));
  observed = observeAll(subject, cases);
});

afterAll(async () => {
  await subject.stop();
});

describe.runIf(RECORD)('recording', () => {
  test('the answers are written down', async () => {
    const cases: Record<string, unknown> = {};
    const recorded = ALL_CASES.filter(({ newer }) => newer === undefined);
    const failures: unknown[] = [];
    for (const { name } of recorded)
      try {
        cases[name] = await observed.get(name);
      } catch (error) {
        failures.push(new Error(name, { cause: error }));
      }
    writeRecording({ server: subject.version.gitVersion, cases });
    expect(failures).toEqual([]);
  });
});

describe.skipIf(RECORD)('a real kube-apiserver answers as recorded', () => {
  const recording = RECORD ? { cases: {} as Record<string, unknown> } : readRecording();

  test.each(ALL_CASES)('$name', async ({ name, newer }) => {
    const answers = observed.get(name);
    if (newer !== undefined && answers === undefined) return; // this server is older than the behaviour
    if (newer === undefined) expect(await answers).toEqual(recording.cases[name]);
    else expect(await answers).toMatchObject(newer.expected);
  });
});
