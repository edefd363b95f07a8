/** `gatehouse manifests -p … --vap --map`: what the API server can enforce itself. */
import { readFileSync } from 'node:fs';
import { stringify } from 'yaml';

import { changesObjects } from '../../admission/native/changes/change-order.ts';
import { compileNative, withoutMutating } from '../../admission/native/native-policy.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { isEnabled } from '../../restore/detector.ts';
import { createStorage } from '../../sandbox/machinery/storage/storage.ts';
import { readObjects, refuse } from './input.ts';
import { createKinds } from './kinds.ts';
import { compilePolicies } from './policies.ts';
import { readOwn } from './read-own.ts';

const NOT_PRINTED = 'it needs a MutatingAdmissionPolicy, from Kubernetes 1.36 on: add --map';

/**
 * YAML that can be applied; with `map`, from Kubernetes 1.36 on. Comments say which checks stay with the webhook, and why.
 *
 * @param paths files and folders; `-` is the standard input. RestoreDetectors among them name who restores
 * @param map whether to print MutatingAdmissionPolicies too
 * @throws UnusableInput with all problems
 */
export function nativeManifests(paths: readonly string[], ownNamespace: string, map: boolean): string {
  const options = { recursive: false, standardInput: () => readFileSync(0, 'utf8') };
  const objects = readObjects(paths, options);
  const kinds = createKinds(objects, createStorage());
  const policies = compilePolicies(objects, kinds, { ownNamespace });
  const detectors = readOwn<RestoreDetector>('RestoreDetector', objects, kinds.registry);
  refuse([...detectors.problems, ...(policies.length === 0 ? ['-p: no AdmissionPolicy was found'] : [])]);
  const restorers = detectors.found
    .map(({ object }) => object)
    .filter(isEnabled)
    .flatMap(({ spec }) => spec.principals);
  const others = policies.filter(changesObjects);
  const documents = policies.map((policy) => {
    const compiled = compileNative(policy, { ownNamespace, restorers, others });
    const { checks, pairs } = map ? compiled : withoutMutating(compiled, NOT_PRINTED);
    const left = checks.flatMap((one) =>
      one.by === 'Webhook' ? [`# ${one.check}: webhook, because ${one.reason}\n`] : [],
    );
    const head = `# AdmissionPolicy ${policy.name}: the API server enforces ${checks.length - left.length} of ${checks.length} checks\n`;
    const native = pairs.flatMap(({ policy: object, binding }) => [object, binding]);
    return [head, ...left, native.map((object) => stringify(object, { lineWidth: 0 })).join('---\n')].join(
      '',
    );
  });
  return documents.join('---\n');
}
