import { createHash } from 'node:crypto';

import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, OWN_LABELS } from '../../api/group.ts';
import { accountsIn, CONTROLLERS_ACCOUNT, WEBHOOK_ACCOUNT } from '../../api/own-accounts.ts';
import { groupResourceName, type KubeObject } from '../../json/kube-object.ts';
import type { Principal } from '../../api/principals.ts';
import type { CompiledMatch, CompiledPolicy, Scope } from '../policy/compiled-policy.ts';
import type { MatchCondition } from '../review/request.ts';
import { GUARD_ENTRY, guardValidations, guardRules, type GuardedPrincipals } from './restore-guard.ts';
import { principalExpression } from './webhook.ts';
import type { Operation } from '../review/request.ts';
import { toGroupResource } from '../../api/policy-match.ts';
import { uniqueBy } from '../../json/json.ts';
import type { NormalSelector } from '../../json/label-selector.ts';

export const OWN_KINDS_POLICY_NAME = 'gatehouse-restorers';

export interface OwnKindsPolicy {
  readonly policy: KubeObject & { readonly spec: object };
  readonly binding: KubeObject & { readonly spec: object };
}

const WITH_STATUS = ['admissionpolicies', 'conversionpolicies', 'restoredetectors', 'restorewindows'];
const STATUSES = WITH_STATUS.map((resource) => `${resource}/status`);
const RESOURCES = [...WITH_STATUS, 'restorereports', 'uniqueclaims', ...STATUSES];

/** Only Gatehouse writes a status, regardless of the restorer's permissions. The API server omits an empty subresource. */
const IS_OBJECT = "!has(request.subResource) || request.subResource == ''";

/** A restorer may end its own window earlier, unless that would end a guard against it. */
const ENDS_WINDOW =
  "request.resource.resource == 'restorewindows' && request.operation == 'UPDATE' && " +
  '!has(oldObject.spec.guard) && ' +
  'object.spec.principals == oldObject.spec.principals && ' +
  'timestamp(object.spec.expiresAt) <= timestamp(oldObject.spec.expiresAt)';

/** Users who may open windows for the whole cluster are never locked out. Backup tools, which run as service accounts, are. */
const IS_ADMINISTRATOR =
  "!request.userInfo.username.startsWith('system:serviceaccount:') && " +
  `authorizer.group('${GROUP}').resource('restorewindows').check('open').allowed()`;

export const RESTORER_REFUSED =
  'a restorer may not write objects of gatehouse.dev: restores leave them out by design. ' +
  `Exclude them from the backup: label them ${EXCLUDE_FROM_BACKUP_LABEL}=true`;

const ownKindsValidation = (restorers: readonly Principal[]) => ({
  expression: `request.resource.group != '${GROUP}' || !(${principalExpression(restorers)}) || ((${IS_OBJECT}) && ((${ENDS_WINDOW}) || (${IS_ADMINISTRATOR})))`,
  message: RESTORER_REFUSED,
  reason: 'Forbidden',
});

/** The API server evaluates the policy, so it also applies while Gatehouse is down. @param restorers or `guarded`: at least one */
export function ownKindsPolicy(
  restorers: readonly Principal[],
  guarded: GuardedPrincipals = {},
): OwnKindsPolicy {
  const metadata = { name: OWN_KINDS_POLICY_NAME, labels: OWN_LABELS };
  return {
    policy: {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingAdmissionPolicy',
      metadata,
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: {
          matchPolicy: 'Equivalent',
          namespaceSelector: {},
          objectSelector: {},
          resourceRules: [
            {
              apiGroups: [GROUP],
              apiVersions: ['*'],
              operations: ['CREATE', 'UPDATE', 'DELETE'],
              resources: RESOURCES,
              scope: '*',
            },
            ...guardRules(guarded),
          ],
        },
        validations: [
          ...(restorers.length === 0 ? [] : [ownKindsValidation(restorers)]),
          ...guardValidations(guarded),
        ],
      },
    },
    binding: {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata,
      spec: { policyName: OWN_KINDS_POLICY_NAME, validationActions: ['Deny'] },
    },
  };
}

/** Fails closed: while Gatehouse is down, windows can neither be opened nor have an effect. */
export const WINDOW_ENTRY = 'own-opening';
/** Fails open: users must be able to correct policies, and to uninstall Gatehouse, while it is down. */
export const STATE_ENTRY = 'own-state';

/** Pauses what restorers write. Fails open: the leader pauses it later, but a lost object would stay lost. */
export const PAUSE_ENTRY = 'own-pause';

export interface OwnKindEntry {
  readonly entryId: string;
  readonly phase: 'mutate' | 'validate';
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly rules: readonly {
    readonly operations: readonly Operation[];
    readonly resources: readonly string[];
  }[];
}

export const OWN_KIND_ENTRIES: readonly OwnKindEntry[] = [
  {
    entryId: WINDOW_ENTRY,
    phase: 'mutate',
    failurePolicy: 'Fail',
    rules: [{ operations: ['CREATE', 'UPDATE'], resources: ['restorewindows'] }],
  },
  {
    entryId: STATE_ENTRY,
    phase: 'mutate',
    failurePolicy: 'Ignore',
    rules: [{ operations: ['CREATE', 'UPDATE'], resources: ['admissionpolicies'] }],
  },
  {
    entryId: WINDOW_ENTRY,
    phase: 'validate',
    failurePolicy: 'Fail',
    rules: [
      { operations: ['CREATE', 'UPDATE'], resources: ['restoredetectors', 'restorewindows'] },
      { operations: ['UPDATE'], resources: ['restorewindows/status'] },
    ],
  },
  {
    entryId: STATE_ENTRY,
    phase: 'validate',
    failurePolicy: 'Ignore',
    rules: [
      {
        operations: ['CREATE', 'UPDATE', 'DELETE'],
        resources: ['admissionpolicies', 'conversionpolicies', 'restorereports', 'uniqueclaims'],
      },
      { operations: ['CREATE', 'UPDATE'], resources: ['policyexceptions'] },
      { operations: ['DELETE'], resources: ['restoredetectors', 'restorewindows'] },
      { operations: ['UPDATE'], resources: STATUSES.filter((name) => name !== 'restorewindows/status') },
    ],
  },
];

/** Without it, each claim that Gatehouse writes during a review would cause another review. */
export function notOwnClaims(ownNamespace: string): MatchCondition {
  const users = [WEBHOOK_ACCOUNT, CONTROLLERS_ACCOUNT].map((name) => accountsIn(ownNamespace) + name);
  return {
    name: 'not-own-claims',
    expression: `request.resource.resource != 'uniqueclaims' || !(request.userInfo.username in ${JSON.stringify(users)})`,
  };
}

export const isOwnEntry = (entry: string): boolean =>
  [WINDOW_ENTRY, STATE_ENTRY, GUARD_ENTRY].includes(entry);

// The webhook entries of policies: one for each scope, and one for each kind whose deletion concerns policies.

/** Ten hex digits (40 bits): a collision would merge two scopes, and becomes likely only with a million scopes. */
const HASH_LENGTH = 10;

/** A DNS label such as `fail-5s-3fa9c2e07b`: part of the webhook's name and path. Equal scopes have equal ids. */
export function entryIdOf(scope: Scope): string {
  const { namespaceSelector, objectSelector, matchConditions, failurePolicy, timeoutSeconds } = scope;
  const canonical = JSON.stringify([
    scope.apiGroups,
    scope.apiVersions,
    canonicalSelector(namespaceSelector),
    canonicalSelector(objectSelector),
    matchConditions.map(({ name, expression }) => [name, expression]),
    failurePolicy,
    timeoutSeconds,
  ]);
  const hash = createHash('sha256').update(canonical).digest('hex').slice(0, HASH_LENGTH);
  return `${failurePolicy.toLowerCase()}-${timeoutSeconds}s-${hash}`;
}

function canonicalSelector({ matchLabels = {}, matchExpressions = [] }: NormalSelector): unknown {
  return [
    Object.entries(matchLabels),
    matchExpressions.map(({ key, operator, values = [] }) => [key, operator, values]),
  ];
}

const DELETION_PREFIX = 'restrict-';

/** Whether the entry is for deletions of targets, which policies with `onTargetDelete` other than `Allow` need. */
export const isDeletionEntry = (entryId: string): boolean => entryId.startsWith(DELETION_PREFIX);

/** Whether the API server admits requests after an HTTP error: then Gatehouse refuses what it cannot decide. */
export const failsOpen = (entryId: string): boolean => /^(restrict-)?ignore-/.test(entryId);

/** One for each target kind, without selectors: the policy's selectors apply to the referring objects. */
export function deletionEntriesOf({
  match: { failurePolicy, timeoutSeconds },
  spec: { validate: { references = [] } = {} },
}: Pick<CompiledPolicy, 'match' | 'spec'>): readonly Pick<CompiledPolicy, 'entryId' | 'match'>[] {
  const targets = references
    .filter(({ onTargetDelete = 'Allow' }) => onTargetDelete !== 'Allow')
    .map(({ target }) => toGroupResource(target));
  return uniqueBy(targets, groupResourceName).map((target) => {
    const match: CompiledMatch = {
      apiGroups: [target.group],
      apiVersions: ['*'],
      resources: [target.resource],
      operations: ['DELETE'],
      namespaceSelector: {},
      objectSelector: {},
      matchConditions: [],
      conditionsOnObject: [],
      failurePolicy,
      timeoutSeconds,
    };
    return { entryId: `${DELETION_PREFIX}${entryIdOf(match)}`, match };
  });
}
