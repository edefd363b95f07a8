import type { GroupResource, KubeObject } from '../../json/kube-object.ts';
import type { Principal } from '../../api/principals.ts';
import type { NormalSelector } from '../../json/label-selector.ts';
import type { MatchCondition } from '../review/request.ts';
import type { Operation } from '../review/request.ts';

/** Records a dev session. Only valid on the two configurations named `gatehouse`. */
export const DEV_URL_ANNOTATION = 'gatehouse.dev/dev-url';

export interface WebhookTarget {
  readonly service: { readonly namespace: string; readonly name: string; readonly port: number };
  /** Base64 of PEM. */
  readonly caBundle: string;
  /** The unguessable segment of the paths. Default: paths without a token. */
  readonly pathToken?: string;
  /** The only namespace that every webhook excludes: Gatehouse has to be able to start while it is down. */
  readonly ownNamespace: string;
  /** The principals of all detectors: the backup tools that restore. */
  readonly restorers?: readonly Principal[];
  readonly protectsOwnKinds?: boolean;
  /** Of all detectors and open windows: the kinds that they pause, and who restores. */
  readonly pauses?: { readonly kinds: readonly GroupResource[]; readonly restorers: readonly Principal[] };
  /** Those whose changes of permissions a guard limits. */
  readonly guarded?: readonly Principal[];
}

export interface WebhookRule {
  readonly apiGroups: readonly string[];
  readonly apiVersions: readonly string[];
  readonly operations: readonly Operation[];
  readonly resources: readonly string[];
  readonly scope: '*';
}

/** With every field that the API server would default, to compare it with the live object. */
export interface Webhook {
  readonly name: string;
  readonly clientConfig: {
    readonly service: WebhookTarget['service'] & { readonly path: string };
    readonly caBundle: string;
  };
  readonly rules: readonly WebhookRule[];
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly matchPolicy: 'Equivalent';
  readonly namespaceSelector: NormalSelector;
  readonly objectSelector: NormalSelector;
  readonly matchConditions?: readonly MatchCondition[];
  readonly sideEffects: 'None' | 'NoneOnDryRun';
  readonly timeoutSeconds: number;
  readonly admissionReviewVersions: readonly string[];
  readonly reinvocationPolicy?: 'IfNeeded';
}

export interface WebhookConfiguration extends KubeObject {
  readonly webhooks: readonly Webhook[];
}

const [RESTORER, NOT_RESTORER] = ['restorer', 'not-restorer'];
const LEFT = 'left-to-the-webhook';
export const RESERVED_CONDITIONS: readonly string[] = [RESTORER, NOT_RESTORER, LEFT];

/** The API server accepts 64. The split for restorers adds one. */
const MOST_CONDITIONS = 63;

/** An entry for what the API server leaves to the webhook, with a different name. */
export function narrowed(webhook: Webhook, conditions: readonly string[]): Webhook {
  const { matchConditions: own = [] } = webhook;
  const left = { ...webhook, name: webhook.name.replace('.', '.left.') };
  if (own.length + 1 > MOST_CONDITIONS) return left;
  const expression = [...new Set(conditions)].join(' || ');
  return { ...left, matchConditions: [...own, { name: LEFT, expression }] };
}

/**
 * Splits an entry that fails closed. Policies that can defer all checks fail open for restorers: a backup tool does not retry,
 * and the sweep checks its writes later. No sweep would find what other policies miss, so these fail closed for everyone.
 */
export function splitForRestorers(
  webhook: Webhook,
  { deferrable, strict }: Readonly<Record<'deferrable' | 'strict', readonly WebhookRule[]>>,
  { restorers = [] }: WebhookTarget,
): readonly Webhook[] {
  const isSplit = restorers.length > 0 && webhook.failurePolicy === 'Fail';
  if (!isSplit || deferrable.length === 0) return [webhook];
  const { name, matchConditions: own = [] } = webhook;
  const isRestorer = principalExpression(restorers);
  const forRestorers = (kind: string, rules: readonly WebhookRule[]): Webhook => ({
    ...webhook,
    name: name.replace('.', `.${kind}.`),
    rules,
    matchConditions: [...own, { name: RESTORER, expression: isRestorer }],
  });
  return [
    { ...webhook, matchConditions: [...own, { name: NOT_RESTORER, expression: `!(${isRestorer})` }] },
    { ...forRestorers('restorer', deferrable), failurePolicy: 'Ignore' },
    ...(strict.length === 0 ? [] : [forRestorers('restorer-strict', strict)]),
  ];
}

/** CEL that is true for requests of one of the principals. @param principals at least one */
export const principalExpression = (principals: readonly Principal[]): string =>
  principals
    .map(({ user, group }) =>
      user === undefined
        ? `${JSON.stringify(group ?? '')} in request.userInfo.groups`
        : `request.userInfo.username == ${JSON.stringify(user)}`,
    )
    .join(' || ');
