import { join } from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';

import type { ControlPlane } from './control-plane.ts';
import { createKubectl, HAS_KUBECTL, type Kubectl } from './kubectl.ts';
import { startSandboxPlane } from './sandbox-plane.ts';

/** Timeout of a test, in milliseconds: each runs a few commands. */
const PATIENCE_MS = 60_000;

export const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');

/** The Servers and Datacenters of deploy/examples. */
const DEFINITIONS = ['datacenter-crd.yaml', 'server-crd.yaml']
  .map((name) => `-f ${join(DEPLOY, 'examples', name)}`)
  .join(' ');

type Suite = Pick<Kubectl, 'says' | 'refuses' | 'watches' | 'file'>;

/**
 * Tests of kubectl against their own sandbox, which serves Servers and Datacenters. They are skipped if kubectl is
 * missing.
 *
 * @param seed objects that exist before the first test
 */
export function describeKubectl(
  title: string,
  seed: readonly object[],
  tests: (kubectl: Suite) => void,
): void {
  describe.runIf(HAS_KUBECTL)(title, { timeout: PATIENCE_MS }, () => {
    let plane: ControlPlane;
    let kubectl: Kubectl;

    beforeAll(async () => {
      plane = await startSandboxPlane();
      kubectl = createKubectl(plane);
      await kubectl.says(`create ${DEFINITIONS}`);
      await kubectl.says('wait crd --all --for=condition=Established');
      if (seed.length > 0) await kubectl.says('create -f -', { stdin: seed });
    }, PATIENCE_MS);

    afterAll(async () => {
      kubectl.stop();
      await plane.stop();
    });

    tests({
      says: (command, told) => kubectl.says(command, told),
      refuses: (command, told) => kubectl.refuses(command, told),
      watches: (command, told) => kubectl.watches(command, told),
      file: (text) => kubectl.file(text),
    });
  });
}
