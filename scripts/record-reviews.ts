/** Records what a real kube-apiserver sends to webhooks, in test/data. Needs Go and kubectl. */
import { writeFileSync } from 'node:fs';
import { delimiter } from 'node:path';

import { startControlPlane } from '../test/support/control-plane.ts';
import { controlPlanePrograms, refuseToRecord } from '../test/support/go-programs.ts';
import { recordReviews } from '../test/support/reviews/recorder.ts';
import { STEPS } from '../test/support/reviews/steps.ts';

process.env.PATH = `${await controlPlanePrograms()}${delimiter}${process.env.PATH ?? ''}`; // for kubectl of the same release
const plane = await startControlPlane();
try {
  refuseToRecord(plane.version.gitVersion);
  const reviews = await recordReviews(plane);
  for (const { name } of STEPS) {
    if (!reviews.some(({ step }) => step === name)) console.warn(`the API server sent nothing for: ${name}`);
  }
  const { major, minor, gitVersion } = plane.version;
  const file = new URL(`../test/data/admission-reviews-${major}.${minor}.jsonl`, import.meta.url);
  writeFileSync(file, reviews.map((review) => `${JSON.stringify(review)}\n`).join(''));
  console.log(`recorded ${reviews.length} reviews of kube-apiserver ${gitVersion}`);
} finally {
  await plane.stop();
}
