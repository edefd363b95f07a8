/** The sandbox answers like a real kube-apiserver: each case compares its answers with recorded ones. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { ALL_CASES, startSubject, type Subject } from '../conformance/subject.ts';
import { readRecording } from '../conformance/recording.ts';

let subject: Subject;
const recording = readRecording();

beforeAll(async () => {
  process.env.GATEHOUSE_TEST_API = 'sandbox';
  subject = await startSubject();
});

afterAll(async () => {
  await subject.stop();
});

test.concurrent.each(ALL_CASES)('$name', async (conformanceCase) => {
  const answers = await subject.observe(conformanceCase);
  expect(answers).toEqual(recording.cases[conformanceCase.name]);
});
