// suite: own-plane, sandbox: no (sandbox-conformance.test.ts is its counterpart)
/**
 * The conformance suite's expectations of the sandbox match a real kube-apiserver now, not only at the time of the
 * recording.
 */
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ALL_CASES, startSubject, type Subject } from '../conformance/subject.ts';
import { readRecording, writeRecording } from '../conformance/recording.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { refuseToRecord } from '../support/go-programs.ts';

/** Overwrites the recording instead of comparing with it. It always records a real API server, never the sandbox. */
const RECORD = process.env.GATEHOUSE_RECORD === '1' && !testsSandbox();

let subject: Subject;

beforeAll(async () => {
  subject = await startSubject();
});

afterAll(async () => {
  await subject.stop();
});

describe.runIf(RECORD)('recording', () => {
  test('the answers are recorded', async () => {
    const cases: Record<string, unknown> = {};
    const failures: unknown[] = [];
    for (const conformanceCase of ALL_CASES)
      try {
        cases[conformanceCase.name] = await subject.observe(conformanceCase);
      } catch (error) {
        failures.push(new Error(conformanceCase.name, { cause: error }));
      }
    expect(failures).toEqual([]);
    refuseToRecord(subject.version.gitVersion);
    await writeRecording({ server: subject.version.gitVersion, cases });
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

  // Cases mostly wait for the API server.
  test.concurrent.each(ALL_CASES)('$name', async (conformanceCase) => {
    const { name } = conformanceCase;
    const answers = await subject.observe(conformanceCase);
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
