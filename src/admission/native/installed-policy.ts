/** The compiled policies that Gatehouse itself installs, as the API server stores them. */
import { isDeepStrictEqual } from 'node:util';

import { GROUP, VERSION } from '../../api/group.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { listIn, objectIn, textIn, valueIn } from '../../json/json.ts';
import type { NativeCheck } from './native-check.ts';
import { digestOf, withProbe } from './probe.ts';

/** Marks what the controller has installed: it never touches the output of `gatehouse manifests --vap`. */
export const INSTALLED_LABEL = 'gatehouse.dev/installed-by';
const INSTALLED_BY = 'gatehouse-controllers';
export const INSTALLED_SELECTOR = `${INSTALLED_LABEL}=${INSTALLED_BY}`;

export const isInstalledByUs = ({ metadata }: KubeObject): boolean =>
  metadata?.labels?.[INSTALLED_LABEL] === INSTALLED_BY;

/** A compiled policy as the API server is to store it. */
export interface Installed {
  readonly policy: KubeObject;
  readonly binding: KubeObject;
  /** Of what the policy says. */
  readonly digest: string;
}

/**
 * The compiled objects with our mark and a probe, owned by their AdmissionPolicy: when that is deleted, the API server stops
 * enforcing them, also while Gatehouse is down.
 *
 * @param objects of `compileNative`
 */
export function installedOf(
  [policy, binding]: readonly KubeObject[],
  { name, uid }: { readonly name: string; readonly uid: string },
): Installed | undefined {
  if (policy === undefined || binding === undefined) return undefined;
  const digest = digestOf(objectIn(policy, 'spec'), objectIn(binding, 'spec'));
  const marked = (object: KubeObject, spec: object): KubeObject => ({
    ...object,
    metadata: {
      ...object.metadata,
      labels: { ...object.metadata?.labels, [INSTALLED_LABEL]: INSTALLED_BY },
      ownerReferences: [{ apiVersion: `${GROUP}/${VERSION}`, kind: 'AdmissionPolicy', name, uid }],
    },
    ...{ spec },
  });
  return {
    policy: marked(policy, withProbe(withDefaults(objectIn(policy, 'spec')), digest)),
    binding: marked(binding, objectIn(binding, 'spec')),
    digest,
  };
}

/** The API server adds these fields: without them, each comparison would find a difference. */
function withDefaults(spec: object): object {
  const constraints = objectIn(spec, 'matchConstraints');
  const selector = (name: string) => valueIn(constraints, name) ?? {};
  return {
    ...spec,
    matchConstraints: {
      matchPolicy: 'Equivalent',
      ...constraints,
      namespaceSelector: selector('namespaceSelector'),
      objectSelector: selector('objectSelector'),
      resourceRules: listIn(constraints, 'resourceRules').map((rule) => ({ scope: '*', ...objectIn(rule) })),
    },
  };
}

/** Whether the API server stores what is wanted. Others may add labels and annotations. */
export function isAsWanted(stored: KubeObject, wanted: KubeObject): boolean {
  const labels = { ...stored.metadata?.labels, ...wanted.metadata?.labels };
  return (
    isDeepStrictEqual(labels, stored.metadata?.labels) &&
    isDeepStrictEqual(stored.metadata?.ownerReferences, wanted.metadata?.ownerReferences) &&
    isDeepStrictEqual(plain(objectIn(stored, 'spec')), plain(objectIn(wanted, 'spec')))
  );
}

/** Without fields that JSON leaves out. */
const plain = (value: object): unknown => JSON.parse(JSON.stringify(value));

/** Why the API server may not enforce a stored policy yet; undefined: it does. */
export function obstacleOf(stored: KubeObject): string | undefined {
  const [warning] = listIn(stored, 'status', 'typeChecking', 'expressionWarnings');
  if (warning !== undefined)
    return `the API server warns about ${textIn(warning, 'fieldRef')}: ${textIn(warning, 'warning')}`;
  if (valueIn(stored, 'status', 'observedGeneration') === stored.metadata?.generation) return undefined;
  return 'kube-controller-manager has not checked its types yet';
}

/** One entry of `status.enforcedBy`. */
export interface Enforcer {
  readonly check: string;
  readonly by: NativeCheck['by'];
  readonly reason?: string;
}

/** @param obstacle why the API server enforces none of the checks; undefined: it enforces those that it can */
export const enforcersOf = (
  checks: readonly NativeCheck[],
  obstacle: string | undefined,
): readonly Enforcer[] =>
  checks.map(({ check, ...one }) => {
    if (one.by === 'Webhook') return { check, by: 'Webhook', reason: one.reason };
    return obstacle === undefined ? { check, by: 'APIServer' } : { check, by: 'Webhook', reason: obstacle };
  });
