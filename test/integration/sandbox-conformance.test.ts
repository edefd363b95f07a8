/** The sandbox answers like a real kube-apiserver: each case compares its answers with recorded ones. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ALL_CASES } from '../conformance/all-cases.ts';
import { readRecording } from '../conformance/recording.ts';
import { observeAll, startSubject, type Subject } from '../conformance/subject.ts';

const PATIENCE_MS = 60_000;

let subject: Subject;
let observed: ReadonlyMap<string, Promise<unknown>>;
const recording = readRecording();

beforeAll(async () => {
  process.env.GATEHOUSE_TEST_API = 'sandbox';
  subject = await startSubject();
  observed = observeAll(subject, ALL_CASES);
}, PATIENCE_MS);

afterAll(async () => {
  await subject.stop();
});

describe('the sandbox answers like a real kube-apiserver', () => {
  test.each(ALL_CASES)(
    '$name',
    async ({ name }) => {
      const answers = await observed.get(name);
      expect(answers).toEqual(recording.cases[name]);
    },
    PATIENCE_MS,
  );
});
