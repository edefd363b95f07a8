// suite: own-plane, sandbox: no (sandbox-conformance.test.ts is its counterpart)
/**
 * The conformance suite's expectations of the sandbox match a real kube-apiserver now, not only at the time of the
 * recording.
 */
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ALL_CASES } from '../conformance/all-cases.ts';
import { runsOn } from '../conformance/case.ts';
import { readRecording, writeRecording } from '../conformance/recording.ts';
import { observeAll, startSubject, type Subject } from '../conformance/subject.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { refuseToRecord } from '../support/go-programs.ts';

/** Overwrites the recording instead of comparing with it. It always records a real API server, never the sandbox. */
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
  test('the answers are recorded', async () => {
    const cases: Record<string, unknown> = {};
    const failures: unknown[] = [];
    for (const { name } of ALL_CASES)
      try {
        cases[name] = await observed.get(name);
      } catch (error) {
        failures.push(new Error(name, { cause: error }));
      }
    expect(failures).toEqual([]);
    refuseToRecord(subject.version.gitVersion);
    writeRecording({ server: subject.version.gitVersion, cases });
  });
});

describe.skipIf(RECORD)('a real kube-apiserver answers as recorded', () => {
  const recording = RECORD ? { server: '', cases: {} as Record<string, unknown> } : readRecording();
  const otherwise: string[] = [];

  afterAll(() => {
    if (otherwise.length === 0) return;
    const { gitVersion } = subject.version;
    console.warn(
      `${gitVersion} uses other words than ${recording.server}, which was recorded, in ${otherwise.length} cases:\n` +
        otherwise.join('\n'),
    );
  });

  test.for(ALL_CASES)('$name', async ({ name, since }, { skip }) => {
    const observing = observed.get(name);
    skip(observing === undefined, `Kubernetes has this behaviour since ${since ?? ''}`);
    const answers = await observing;
    const recorded = recording.cases[name];
    if (subject.version.gitVersion === recording.server) {
      expect(answers).toEqual(recorded);
      return;
    }
    expect(outlineOf(answers)).toEqual(outlineOf(recorded));
    if (!isDeepStrictEqual(answers, recorded)) otherwise.push(name);
  });
});

/**
 * Releases differ in wording and in additional fields. The outcome of each request must be the same in every release.
 */
function outlineOf(answers: unknown): unknown {
  if (!Array.isArray(answers)) return answers;
  return answers.map((answer: { readonly request?: unknown; readonly status?: unknown }) => ({
    request: answer.request,
    status: answer.status,
  }));
}
