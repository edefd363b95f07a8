import { isDeepStrictEqual } from 'node:util';

import type { AdmissionPolicyStatus } from '../../api/admission-policy.ts';
import { GROUP, VERSION } from '../../api/group.ts';
import type { KubeObject, OwnerReference } from '../../json/kube-object.ts';
import { listIn, objectIn, textIn, valueIn } from '../../json/json.ts';
import { inWebhook, type NativeCheck, type NativePart, type WebhookCheck } from './native-check.ts';
import { NAME_ENDING, type NativePair } from './native-policy.ts';
import { digestOf, withProbe } from './probe.ts';

/** Marks what the controller has installed: it never touches the output of `gatehouse manifests --vap`. */
export const INSTALLED_LABEL = 'gatehouse.dev/installed-by';
const INSTALLED_BY = 'gatehouse-controllers';
export const INSTALLED_SELECTOR = `${INSTALLED_LABEL}=${INSTALLED_BY}`;

/**
 * A user may copy such a policy under another name, or remove our mark.
 * @param wanted its owner proves that an object without the mark is ours
 */
export const isInstalledByUs = ({ metadata }: KubeObject, wanted?: KubeObject): boolean =>
  (metadata?.labels?.[INSTALLED_LABEL] === INSTALLED_BY && metadata.name?.endsWith(NAME_ENDING) === true) ||
  (wanted !== undefined && isDeepStrictEqual(metadata?.ownerReferences, wanted.metadata?.ownerReferences));

export interface Installed extends NativePair {
  readonly name: string;
  readonly digest: string;
}

/**
 * The pair with our mark. The AdmissionPolicy owns the policy, and the installation the binding (undefined: the AdmissionPolicy owns
 * both). So when either owner is deleted, the API server stops enforcing the pair, even while Gatehouse is down.
 */
export function installedOf(
  { part, policy, binding, answersProbes }: NativePair,
  { name, uid }: { readonly name: string; readonly uid: string },
  installation?: OwnerReference,
): Installed {
  const owner: OwnerReference = { apiVersion: `${GROUP}/${VERSION}`, kind: 'AdmissionPolicy', name, uid };
  const [stated, bound] = [objectIn(policy, 'spec'), objectIn(binding, 'spec')];
  const digest = digestOf(stated, bound);
  const marked = (object: KubeObject, spec: object, by: OwnerReference): KubeObject => ({
    ...object,
    metadata: {
      ...object.metadata,
      labels: { ...object.metadata?.labels, [INSTALLED_LABEL]: INSTALLED_BY },
      ownerReferences: [by],
    },
    ...{ spec },
  });
  return {
    part,
    digest,
    answersProbes,
    name: policy.metadata?.name ?? '',
    policy: marked(policy, answersProbes ? withProbe(stated, digest) : stated, owner),
    binding: marked(binding, bound, installation ?? owner),
  };
}

export const isAsWanted = (stored: KubeObject, wanted: KubeObject): boolean =>
  enforcesAsWanted(stored, wanted) &&
  isDeepStrictEqual(stored.metadata?.ownerReferences, wanted.metadata?.ownerReferences);

/** Like {@link isAsWanted}, regardless of the owners. */
export function enforcesAsWanted(stored: KubeObject, wanted: KubeObject): boolean {
  const labels = { ...stored.metadata?.labels, ...wanted.metadata?.labels };
  return (
    isDeepStrictEqual(labels, stored.metadata?.labels) &&
    isDeepStrictEqual(plain(objectIn(stored, 'spec')), plain(objectIn(wanted, 'spec')))
  );
}

const plain = (value: object): unknown => JSON.parse(JSON.stringify(value));

/** Until then, the status may contain the warnings about the previous text. */
export const isTypeChecked = (stored: KubeObject): boolean =>
  valueIn(stored, 'status', 'observedGeneration') === stored.metadata?.generation;

/** The checks about whose types the API server warns: all of the part if the warning is about none of them. */
export function warnedBy(
  stored: KubeObject,
  { part, answersProbes }: Pick<Installed, 'part' | 'answersProbes'>,
  checks: readonly NativeCheck[],
): readonly WebhookCheck[] {
  if (!isTypeChecked(stored)) return [];
  const ofPart = checks.flatMap((one) => (one.by === 'APIServer' && one.part === part ? [one] : []));
  const places = ofPart.flatMap(({ check, validations }) => validations.map(() => check));
  return listIn(stored, 'status', 'typeChecking', 'expressionWarnings').flatMap((warning) => {
    const [ref, text] = [textIn(warning, 'fieldRef'), textIn(warning, 'warning').trim()];
    const [, index, field] = /^spec\.validations\[(\d+)\]\.(.+)$/.exec(ref) ?? [];
    const found = index === undefined ? undefined : places[Number(index) - (answersProbes ? 1 : 0)];
    const reason = `the API server warns about ${found === undefined ? ref : `its ${field}`}: ${text}`;
    const warned = found === undefined ? ofPart.map(({ check }) => check) : [found];
    return warned.map((check) => inWebhook(check, reason));
  });
}

export const TYPES_UNCHECKED = 'kube-controller-manager has not checked its types yet';

export type Enforcer = NonNullable<AdmissionPolicyStatus['enforcedBy']>[number];

/** @param obstacleOfPart why the API server does not enforce the checks of a part; undefined: it does */
export const enforcersOf = (
  checks: readonly NativeCheck[],
  obstacleOfPart: (part: NativePart) => string | undefined,
): readonly Enforcer[] =>
  checks.map((one) => {
    if (one.by === 'Webhook') return one;
    const { check } = one;
    const obstacle = obstacleOfPart(one.part);
    return obstacle === undefined ? { check, by: 'APIServer' } : { check, by: 'Webhook', reason: obstacle };
  });
