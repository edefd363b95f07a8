import { GROUP, OWN_LABELS } from '../../api/group.ts';
import type { CompiledMatch, CompiledPolicy } from '../policy/compiled-policy.ts';
import { canDeferAll } from '../policy/deferral/deferral.ts';
import { changesObjects } from '../native/changes/change-order.ts';
import { leftCondition, NO_RELEASES, type Release, type ReleaseOf } from '../native/release.ts';
import { deletionEntriesOf } from './policy-entries.ts';
import {
  mutatedOperations as mutatedByHandler,
  validatedOperations as validatedByHandler,
  type CompiledHandler,
} from '../handlers/compile-handler.ts';
import { NAMESPACE_NAME_LABEL, type NormalSelector } from '../../json/label-selector.ts';
import { notOwnClaims, OWN_KIND_ENTRIES, type OwnKindEntry } from './protect-own-kinds.ts';
import { webhookPath } from './path-tokens.ts';
import { writes, type Operation } from '../review/request.ts';
import {
  narrowed,
  splitForRestorers,
  type WebhookTarget,
  type WebhookConfiguration,
  type Webhook,
  type WebhookRule,
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
  return {
    mutating: configuration(
      'MutatingWebhookConfiguration',
      [
        ...ownWebhooks('mutate', target),
        ...webhooks(
          'mutate',
          policies,
          (policy) => mutationsLeft(policy, releaseOf(policy)),
          target,
          canDeferAll,
          (policy) => narrowMutation(policy, releaseOf(policy)),
        ),
        ...webhooks('mutate', handlers, mutatedByHandler, target),
      ].map((webhook) => ({ ...webhook, reinvocationPolicy: 'IfNeeded' })),
    ),
    validating: configuration('ValidatingWebhookConfiguration', [
      ...ownWebhooks('validate', target),
      ...webhooks(
        'validate',
        policies,
        (policy) => operationsLeft(policy, releaseOf(policy)),
        target,
        canDeferAll,
        (policy) => narrowCondition(policy, releaseOf(policy)),
      ),
      ...webhooks('validate', handlers, validatedByHandler, target),
      ...webhooks('validate', policies.flatMap(deletionEntriesOf), ({ match }) => match.operations, target),
    ]),
  };
}

/** From the spec: a version that does not compile any more keeps its webhooks. */
function mutatedOperations({
  spec: { defaults = [], mutations = [], owners, validate },
  match,
}: CompiledPolicy): readonly Operation[] {
  const correctsUids = validate?.references?.some(({ uidPath }) => uidPath !== undefined) ?? false;
  const changes = defaults.length > 0 || mutations.length > 0 || owners?.preserve === true || correctsUids;
  return match.operations.filter((operation) => changes && writes(operation));
}

/** Whether the webhook still changes objects, apart from requests that the API server leaves to it. */
const changesLeft = ({ remaining }: Release): boolean => changesObjects(remaining);

function mutationsLeft(policy: CompiledPolicy, release: Release | undefined): readonly Operation[] {
  const all = mutatedOperations(policy);
  if (release === undefined || changesLeft(release)) return all;
  return leftCondition(policy, release.restorers) === undefined ? [] : all;
}

function narrowMutation(policy: CompiledPolicy, release: Release | undefined): string | undefined {
  if (release === undefined || changesLeft(release)) return undefined;
  return leftCondition(policy, release.restorers);
}

function validatedOperations({ spec, match }: CompiledPolicy): readonly Operation[] {
  const { validate = {}, warnings = [], auditAnnotations = [] } = spec;
  const { immutableFromCreation = [], references = [], unique = [], schema, rules = [] } = validate;
  const immutable = [...(validate.immutable ?? []), ...immutableFromCreation];
  const always = rules.length > 0 || warnings.length > 0 || auditAnnotations.length > 0;
  const onWrites = references.length > 0 || unique.length > 0 || schema !== undefined;
  return match.operations.filter(
    (operation) =>
      always || (immutable.length > 0 && operation === 'UPDATE') || (onWrites && writes(operation)),
  );
}

function checkedOperations(policy: CompiledPolicy): readonly Operation[] {
  const { match, rules, warnings, auditAnnotations, immutable, references, unique, schema } = policy;
  const always = rules.length + warnings.length + auditAnnotations.length > 0;
  const onWrites = references.length + unique.length > 0 || schema !== undefined;
  return match.operations.filter(
    (operation) =>
      always || (immutable.length > 0 && operation === 'UPDATE') || (onWrites && writes(operation)),
  );
}

/** The operations on which the webhook still judges: its own checks, and requests that the API server leaves to it. */
function operationsLeft(policy: CompiledPolicy, release: Release | undefined): readonly Operation[] {
  const all = validatedOperations(policy);
  if (release === undefined) return all;
  if (leftCondition(policy, release.restorers) !== undefined) return all;
  const own = checkedOperations(release.remaining);
  return all.filter((operation) => own.includes(operation));
}

/** The condition of the requests that the API server leaves to the webhook, if that has no other checks. */
function narrowCondition(policy: CompiledPolicy, release: Release | undefined): string | undefined {
  if (release === undefined) return undefined;
  return checkedOperations(release.remaining).length === 0
    ? leftCondition(policy, release.restorers)
    : undefined;
}

function configuration(kind: string, entries: readonly Webhook[]): WebhookConfiguration {
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind,
    metadata: { name: WEBHOOK_CONFIGURATION_NAME, labels: OWN_LABELS },
    webhooks: entries,
  };
}

interface Governing {
  readonly entryId: string;
  readonly match: CompiledMatch;
  /** Unique values: validation claims them, except on a dry run. */
  readonly unique?: readonly unknown[];
}

function webhooks<T extends Governing>(
  phase: 'mutate' | 'validate',
  governing: readonly T[],
  operationsOf: (one: T) => readonly Operation[],
  target: WebhookTarget,
  isDeferrable: (one: T, operation: Operation) => boolean = () => false,
  conditionOf: (one: T) => string | undefined = () => undefined,
): readonly Webhook[] {
  const called = governing.filter((one) => operationsOf(one).length > 0);
  const entries = [...Map.groupBy(called, ({ entryId }) => entryId)];
  return entries
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([entryId, all]) => {
      const [first] = all;
      if (first === undefined) return [];
      // All policies of an entry have the same scope, so the first one is used.
      const { match } = first;
      const rulesOf = (isIncluded: (one: T, operation: Operation) => boolean) =>
        uniqueRules(
          all.flatMap((each) => {
            const operations = operationsOf(each).filter((operation) => isIncluded(each, operation));
            return operations.length === 0 ? [] : [ruleOf(each, operations)];
          }),
        );
      const claims = phase === 'validate' && all.some(({ unique = [] }) => unique.length > 0);
      const forAll: Webhook = {
        ...webhook(phase, entryId, match, target),
        rules: rulesOf(() => true),
        namespaceSelector: withoutNamespace(match.namespaceSelector, target.ownNamespace),
        objectSelector: match.objectSelector,
        ...(match.matchConditions.length > 0 ? { matchConditions: match.matchConditions } : {}),
        sideEffects: claims ? 'NoneOnDryRun' : 'None',
      };
      const conditions = all.map(conditionOf);
      return splitForRestorers(
        conditions.includes(undefined)
          ? forAll
          : narrowed(
              forAll,
              conditions.flatMap((one) => one ?? []),
            ),
        { deferrable: rulesOf(isDeferrable), strict: rulesOf((...request) => !isDeferrable(...request)) },
        target,
      );
    });
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

function ruleOf({ match }: Governing, operations: readonly Operation[]): WebhookRule {
  const { apiGroups, apiVersions, resources } = match;
  return { apiGroups, apiVersions, operations, resources, scope: '*' };
}

function uniqueRules(rules: readonly WebhookRule[]): readonly WebhookRule[] {
  const byText = new Map(rules.map((rule) => [JSON.stringify(rule), rule]));
  return [...byText].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, rule]) => rule);
}

/** Each rule of each webhook, as text. A policy is installed when both configurations carry its rules. */
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

/** The scope of a policy is in the name of its webhook, so nothing else matters here. */
const ANY_TARGET = {
  service: { namespace: '', name: '', port: 443 },
  caBundle: '',
  ownNamespace: '',
};
