import { GROUP, OWN_LABELS } from '../../api/group.ts';
import type { CompiledMatch, CompiledPolicy } from '../policy/compiled-policy.ts';
import { canDeferAll } from '../policy/deferral/deferral.ts';
import { changesObjects } from '../native/changes/change-order.ts';
import { leftCondition, NO_RELEASES, type Release, type ReleaseOf } from '../native/release.ts';
import {
  deletionEntriesOf,
  notOwnClaims,
  OWN_KIND_ENTRIES,
  PAUSE_ENTRY,
  type OwnKindEntry,
} from './protect-own-kinds.ts';
import {
  type CompiledHandler,
  mutatedOperations as mutatedByHandler,
  validatedOperations as validatedByHandler,
} from '../handlers/compile-handler.ts';
import { GUARD_ENTRY, guardConditions, guardRule } from './restore-guard.ts';
import { NAMESPACE_NAME_LABEL, type NormalSelector } from '../../json/label-selector.ts';
import { stringifyJson, uniqueBy } from '../../json/json.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { webhookPath } from './path-tokens.ts';
import { type Operation, writes } from '../review/request.ts';
import {
  narrowed,
  principalExpression,
  splitForRestorers,
  type Webhook,
  type WebhookConfiguration,
  type WebhookRule,
  type WebhookTarget,
} from './webhook.ts';
import type { LiveWebhookConfiguration } from './dev-entries.ts';

export const WEBHOOK_CONFIGURATION_NAME = 'gatehouse';

/** The API server calls mutating webhooks in this order: handlers see the changes that policies have made. */
export function webhookConfigurations(
  policies: readonly CompiledPolicy[],
  target: WebhookTarget,
  handlers: readonly CompiledHandler[] = [],
  releaseOf: ReleaseOf = NO_RELEASES,
): { readonly mutating: WebhookConfiguration; readonly validating: WebhookConfiguration } {
  const mutated = policies.flatMap((policy) => {
    const release = releaseOf(policy);
    const all = mutatedOperations(policy);
    const own = release === undefined || changesObjects(release.remaining) ? all : [];
    return governing(policy, release, all, own);
  });
  const validated = policies.flatMap((policy) => {
    const release = releaseOf(policy);
    const all = validatedOperations(policy);
    const checked = release === undefined ? all : checkedOperations(release.remaining);
    const own = all.filter((operation) => checked.includes(operation));
    const claims = policy.unique.length > 0;
    return governing(policy, release, all, own).map((one) => ({ ...one, claims }));
  });
  const ofHandlers = (operationsOf: (handler: CompiledHandler) => readonly Operation[]) =>
    handlers.map((handler) => ({ ...handler, operations: operationsOf(handler) }));
  const deletions = policies
    .flatMap(deletionEntriesOf)
    .map((entry) => ({ ...entry, operations: entry.match.operations }));
  return {
    mutating: configuration(
      'MutatingWebhookConfiguration',
      [
        ...ownWebhooks('mutate', target),
        ...webhooks('mutate', mutated, target),
        ...webhooks('mutate', ofHandlers(mutatedByHandler), target),
        ...pauseWebhooks(target),
      ].map((webhook) => ({ ...webhook, reinvocationPolicy: 'IfNeeded' })),
    ),
    validating: configuration('ValidatingWebhookConfiguration', [
      ...ownWebhooks('validate', target),
      ...guardWebhooks(target),
      ...webhooks('validate', validated, target),
      ...webhooks('validate', ofHandlers(validatedByHandler), target),
      ...webhooks('validate', deletions, target),
    ]),
  };
}

/** A policy or handler, and the operations for which the API server calls its webhook. */
interface Governing {
  readonly entryId: string;
  readonly match: CompiledMatch;
  readonly operations: readonly Operation[];
  /** Only requests that satisfy it need the webhook. */
  readonly condition?: string | undefined;
  readonly isDeferrable?: (operation: Operation) => boolean;
  /** Whether validation claims unique values, except on a dry run. */
  readonly claims?: boolean;
}

/** The operations that the webhook checks or changes, then the others: the API server passes on some of their requests. */
function governing(
  policy: CompiledPolicy,
  release: Release | undefined,
  all: readonly Operation[],
  own: readonly Operation[],
): readonly Governing[] {
  const { entryId, match } = policy;
  const condition = release && leftCondition(policy, release.restorers);
  const others = condition === undefined ? [] : all.filter((operation) => !own.includes(operation));
  const isDeferrable = (operation: Operation) => canDeferAll(policy, operation);
  return [
    { entryId, match, operations: own, isDeferrable },
    { entryId, match, operations: others, condition, isDeferrable },
  ];
}

/** From the spec, because a version that does not compile keeps its webhooks. */
function mutatedOperations({
  spec: { defaults = [], mutations = [], owners, validate },
  match,
}: CompiledPolicy): readonly Operation[] {
  const correctsUids = validate?.references?.some(({ uidPath }) => uidPath !== undefined) ?? false;
  const changes = defaults.length > 0 || mutations.length > 0 || owners?.preserve === true || correctsUids;
  return match.operations.filter((operation) => changes && writes(operation));
}

function validatedOperations({ spec, match }: CompiledPolicy): readonly Operation[] {
  const { validate = {}, warnings = [], auditAnnotations = [] } = spec;
  const { immutableFromCreation = [], references = [], unique = [], schema, rules = [] } = validate;
  const immutable = [...(validate.immutable ?? []), ...immutableFromCreation];
  const ofSpec = { rules, warnings, auditAnnotations, immutable, references, unique, schema };
  return checkedOperations({ match, ...ofSpec });
}

interface Checks extends Record<
  'rules' | 'warnings' | 'auditAnnotations' | 'immutable' | 'references' | 'unique',
  readonly unknown[]
> {
  readonly match: CompiledMatch;
  readonly schema?: unknown;
}

function checkedOperations(checks: Checks): readonly Operation[] {
  const { match, rules, warnings, auditAnnotations, immutable, references, unique, schema } = checks;
  const always = rules.length + warnings.length + auditAnnotations.length > 0;
  const onWrites = references.length + unique.length > 0 || schema !== undefined;
  return match.operations.filter(
    (operation) =>
      always || (immutable.length > 0 && operation === 'UPDATE') || (onWrites && writes(operation)),
  );
}

const configuration = (kind: string, entries: readonly Webhook[]): WebhookConfiguration => ({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind,
  metadata: { name: WEBHOOK_CONFIGURATION_NAME, labels: OWN_LABELS },
  webhooks: entries,
});

function webhooks(
  phase: 'mutate' | 'validate',
  all: readonly Governing[],
  target: WebhookTarget,
): readonly Webhook[] {
  const called = all.filter(({ operations }) => operations.length > 0);
  return [...Map.groupBy(called, ({ entryId }) => entryId)]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([entryId, some]) => {
      const [first] = some;
      if (first === undefined) return [];
      // All policies of an entry have the same scope, so the first one is used.
      const made = webhook(phase, entryId, first.match, target);
      // Requests that the API server judges alone must not wait for Gatehouse because of other policies.
      const parts = Map.groupBy(some, ({ condition }) => condition !== undefined);
      return [parts.get(false) ?? [], parts.get(true) ?? []].flatMap((part) =>
        part.length === 0 ? [] : entry(made, first, part, target),
      );
    });
}

function entry(
  unscoped: Omit<Webhook, 'rules'>,
  { match }: Governing,
  all: readonly Governing[],
  target: WebhookTarget,
): readonly Webhook[] {
  const rulesOf = (isIncluded: (one: Governing, operation: Operation) => boolean) =>
    uniqueRules(
      all.flatMap((each) => {
        const operations = each.operations.filter((operation) => isIncluded(each, operation));
        return operations.length === 0 ? [] : [ruleOf(each.match, operations)];
      }),
    );
  const isDeferrable = (one: Governing, operation: Operation) => one.isDeferrable?.(operation) === true;
  const whole: Webhook = {
    ...unscoped,
    rules: rulesOf(() => true),
    namespaceSelector: withoutNamespace(match.namespaceSelector, target.ownNamespace),
    objectSelector: match.objectSelector,
    ...(match.matchConditions.length > 0 ? { matchConditions: match.matchConditions } : {}),
    sideEffects: all.some(({ claims }) => claims === true) ? 'NoneOnDryRun' : 'None',
  };
  const conditions = all.flatMap(({ condition }) => condition ?? []);
  return splitForRestorers(
    conditions.length === 0 ? whole : narrowed(whole, conditions),
    { deferrable: rulesOf(isDeferrable), strict: rulesOf((...request) => !isDeferrable(...request)) },
    target,
  );
}

function ownWebhooks(phase: OwnKindEntry['phase'], target: WebhookTarget): readonly Webhook[] {
  if (target.protectsOwnKinds !== true) return [];
  return OWN_KIND_ENTRIES.filter((entry) => entry.phase === phase).map(
    ({ entryId, failurePolicy, rules }) => ({
      ...webhook(phase, entryId, { failurePolicy, timeoutSeconds: 5 }, target),
      rules: rules.map((rule) => ({ apiGroups: [GROUP], apiVersions: ['*'], ...rule, scope: '*' })),
      ...(rules.some(({ resources }) => resources.includes('uniqueclaims'))
        ? { matchConditions: [notOwnClaims(target.ownNamespace)] }
        : {}),
    }),
  );
}

/** Last, because the values that policies and handlers have left are restored later. */
function pauseWebhooks(target: WebhookTarget): readonly Webhook[] {
  const { kinds = [], restorers = [] } = target.pauses ?? {};
  if (kinds.length === 0 || restorers.length === 0) return [];
  const rules = uniqueBy(kinds, groupResourceName).map(({ group, resource }): WebhookRule => ({
    apiGroups: [group],
    apiVersions: ['*'],
    operations: ['CREATE', 'UPDATE'],
    resources: [resource],
    scope: '*',
  }));
  return [
    {
      ...webhook('mutate', PAUSE_ENTRY, { failurePolicy: 'Ignore', timeoutSeconds: 5 }, target),
      rules: uniqueRules(rules),
      namespaceSelector: withoutNamespace({}, target.ownNamespace),
      matchConditions: [
        { name: 'restorer', expression: principalExpression(uniqueBy(restorers, stringifyJson)) },
      ],
      sideEffects: 'NoneOnDryRun', // it may open the window of the restore
    },
  ];
}

/** Fails closed, unlike the checks of policies: no sweep would remove permissions. */
function guardWebhooks(target: WebhookTarget): readonly Webhook[] {
  const { guarded = [] } = target;
  if (guarded.length === 0) return [];
  const scope = { failurePolicy: 'Fail', timeoutSeconds: 10 } as const;
  const made = webhook('validate', GUARD_ENTRY, scope, target);
  return [{ ...made, rules: [guardRule('Permissions')], matchConditions: guardConditions(guarded) }];
}

function webhook(
  phase: 'mutate' | 'validate',
  entryId: string,
  { failurePolicy, timeoutSeconds }: Pick<CompiledMatch, 'failurePolicy' | 'timeoutSeconds'>,
  { service, caBundle, pathToken = '' }: WebhookTarget,
): Omit<Webhook, 'rules'> {
  return {
    name: `${entryId}.${phase}.${GROUP}`,
    clientConfig: { service: { ...service, path: webhookPath(phase, pathToken, entryId) }, caBundle },
    failurePolicy,
    matchPolicy: 'Equivalent',
    namespaceSelector: {},
    objectSelector: {},
    sideEffects: 'None',
    timeoutSeconds,
    admissionReviewVersions: ['v1'],
  };
}

export function withoutNamespace(selector: NormalSelector, namespace: string): NormalSelector {
  const exclusion = { key: NAMESPACE_NAME_LABEL, operator: 'NotIn', values: [namespace] } as const;
  return { ...selector, matchExpressions: [...(selector.matchExpressions ?? []), exclusion] };
}

const ruleOf = (
  { apiGroups, apiVersions, resources }: CompiledMatch,
  operations: readonly Operation[],
): WebhookRule => ({ apiGroups, apiVersions, operations, resources, scope: '*' });

function uniqueRules(rules: readonly WebhookRule[]): readonly WebhookRule[] {
  const byText = new Map(rules.map((rule) => [JSON.stringify(rule), rule]));
  return [...byText].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, rule]) => rule);
}

/** Each rule of each webhook as a string. A policy is installed when both configurations have its rules. */
export type InstalledRules = ReadonlySet<string>;

/** @param configurations as read from the API server */
export const rulesIn = (
  configurations: readonly Pick<LiveWebhookConfiguration, 'webhooks'>[],
): InstalledRules =>
  new Set(
    configurations.flatMap(({ webhooks = [] }) =>
      webhooks.flatMap(({ name, rules = [] }) => rules.map((rule) => ruleText(name, rule))),
    ),
  );

export function rulesOf(
  policies: readonly CompiledPolicy[],
  releaseOf: ReleaseOf = NO_RELEASES,
): InstalledRules {
  const { mutating, validating } = webhookConfigurations(policies, ANY_TARGET, [], releaseOf);
  return rulesIn([mutating, validating]);
}

const ruleText = (webhook: string, { apiGroups, apiVersions, operations, resources }: WebhookRule): string =>
  JSON.stringify([webhook, apiGroups, apiVersions, operations, resources]);

/** The name of a webhook contains the policy's scope, so nothing else matters here. */
const ANY_TARGET = { service: { namespace: '', name: '', port: 443 }, caBundle: '', ownNamespace: '' };
