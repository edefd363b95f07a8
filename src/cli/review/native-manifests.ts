/** `gatehouse manifests -p … --vap --map`: what the API server can enforce itself. */
import { readFileSync } from 'node:fs';
import { stringify } from 'yaml';

import { changesObjects } from '../../admission/native/changes/change-order.ts';
import { compileNative, withoutMutating } from '../../admission/native/native-policy.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { NEWEST_MINOR, OLDEST_MINOR } from '../../kube/supported-version.ts';
import { isEnabled } from '../../restore/detector.ts';
import { createStorage } from '../../sandbox/machinery/storage/storage.ts';
import { readObjects, refuse, UnusableInput } from './input.ts';
import { createKinds } from './kinds.ts';
import { compilePolicies } from './policies.ts';
import { readOwn } from './read-own.ts';

const NOT_PRINTED = 'it needs a MutatingAdmissionPolicy, from Kubernetes 1.36 on: add --map';

/**
 * YAML that can be applied; with `map`, from Kubernetes 1.36 on. Comments say which checks stay with the webhook, and why, and
 * which Kubernetes answers the others as the webhook does.
 *
 * @param paths files and folders; `-` is the standard input. RestoreDetectors among them name who restores
 * @param map whether to print MutatingAdmissionPolicies too
 * @param minor the release of Kubernetes 1 that enforces them; undefined: the newest, and comments name what needs a newer one
 * @throws UnusableInput with all problems
 */
export function nativeManifests(
  paths: readonly string[],
  { ownNamespace, map, minor }: NativeManifestOptions,
): string {
  const options = { recursive: false, standardInput: () => readFileSync(0, 'utf8') };
  const objects = readObjects(paths, options);
  const kinds = createKinds(objects, createStorage());
  const detectors = readOwn<RestoreDetector>('RestoreDetector', objects, kinds.registry);
  refuse(detectors.problems);
  const restorers = detectors.found
    .map(({ object }) => object)
    .filter(isEnabled)
    .flatMap(({ spec }) => spec.principals);
  const compileFor = (server: number | undefined): readonly NativePolicy[] => {
    const policies = compilePolicies(objects, kinds, { ownNamespace, server });
    refuse(policies.length === 0 ? ['-p: no AdmissionPolicy was found'] : []);
    const others = policies.filter(changesObjects);
    return policies.map((policy) => {
      const compiled = compileNative(policy, { ownNamespace, restorers, others });
      return { name: policy.name, ...(map ? compiled : withoutMutating(compiled, NOT_PRINTED)) };
    });
  };
  const oldest = (policy: NativePolicy, index: number): number | undefined =>
    minor === undefined
      ? OLDER.findLast((server) => countOf(orRefused(() => compileFor(server)[index])) < countOf(policy))
      : undefined;
  return compileFor(minor)
    .map((policy, index) => textOf(policy, oldest(policy, index)))
    .join('---\n');
}

interface NativeManifestOptions {
  readonly ownNamespace: string;
  readonly map: boolean;
  readonly minor?: number | undefined;
}

type NativePolicy = ReturnType<typeof compileNative> & { readonly name: string };

const OLDER = Array.from({ length: NEWEST_MINOR - OLDEST_MINOR }, (_, index) => OLDEST_MINOR + index);

/** Undefined where an older API server would refuse a match condition. */
function orRefused<T>(compile: () => T): T | undefined {
  try {
    return compile();
  } catch (error) {
    if (error instanceof UnusableInput) return undefined;
    throw error;
  }
}

/** How many checks the API server enforces. */
const countOf = (policy: NativePolicy | undefined): number =>
  (policy?.checks ?? []).filter(({ by }) => by === 'APIServer').length;

/** @param tooOld the newest release that answers a check otherwise */
function textOf(policy: NativePolicy, tooOld: number | undefined): string {
  const { name, checks, pairs } = policy;
  const left = checks.flatMap((one) =>
    one.by === 'Webhook' ? [`# ${one.check}: webhook, because ${one.reason}\n`] : [],
  );
  const needs =
    tooOld === undefined
      ? []
      : [
          `# Kubernetes 1.${tooOld + 1} or newer: for an older one, add --target-version, which leaves more to the webhook\n`,
        ];
  const head = `# AdmissionPolicy ${name}: the API server enforces ${countOf(policy)} of ${checks.length} checks\n`;
  const native = pairs.flatMap(({ policy: object, binding }) => [object, binding]);
  const text = native.map((object) => stringify(object, { lineWidth: 0 })).join('---\n');
  return [head, ...needs, ...left, text].join('');
}
