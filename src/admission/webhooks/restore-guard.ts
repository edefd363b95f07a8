/** What the API server itself refuses in restores, and which changes of permissions it leaves to the webhook. */
import { type Danger, DANGERS, GUARD_ADVICE, GUARDED_KINDS } from '../../api/restore-guard.ts';
import type { Principal } from '../../api/principals.ts';
import type { MatchCondition } from '../review/request.ts';
import { DEV_URL_ANNOTATION, principalExpression, type WebhookRule } from './webhook.ts';

/** Fails closed: nothing would take back permissions that a restore brought while Gatehouse was down. */
export const GUARD_ENTRY = 'own-guard';

export type GuardedPrincipals = Readonly<Partial<Record<Danger, readonly Principal[]>>>;

/** Labels can add a ClusterRole to others that select it. */
const SAME_LABELS = ['object, oldObject', 'oldObject, object']
  .map((pair) => {
    const [one, other] = pair.split(', ');
    return `${one}.metadata.?labels.orValue({}).all(key, key.startsWith('velero.io/') || ${one}.metadata.?labels[?key] == ${other}.metadata.?labels[?key])`;
  })
  .join(' && ');

const same = (...fields: readonly string[]) =>
  fields.map((field) => `object.?${field} == oldObject.?${field}`).join(' && ');

/** The garbage collector deletes an object whose owner does not exist. */
const SAME_OWNERS = 'object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences';

/** During a dev session, the leader does not write the entry of a new guard. */
const SAME_SESSION = ['object', 'oldObject']
  .map((one) => `${one}.metadata.?annotations[?'${DEV_URL_ANNOTATION}']`)
  .join(' == ');

const UNCHANGED: Readonly<Record<Danger, string>> = {
  Permissions: `${same('rules', 'aggregationRule', 'roleRef', 'subjects')} && (request.resource.resource != 'clusterroles' || (${SAME_LABELS}))`,
  AdmissionObjects: `${same('webhooks')} && ${SAME_OWNERS} && ${SAME_SESSION}`,
  CustomResourceDefinitions: `${same('spec')} && ${SAME_OWNERS}`,
  APIServices: `${same('spec')} && ${SAME_OWNERS}`,
};

/** CEL that is true for an update that changes only harmless metadata. */
export const unchanged = (danger: Danger): string => `request.operation == 'UPDATE' && ${UNCHANGED[danger]}`;

export const guardRule = (danger: Danger): WebhookRule => ({
  apiGroups: [GUARDED_KINDS[danger].group],
  apiVersions: ['*'],
  // Without its webhooks or CRDs, Gatehouse guards nothing. A role that is gone grants nothing.
  operations: danger === 'Permissions' ? ['CREATE', 'UPDATE'] : ['CREATE', 'UPDATE', 'DELETE'],
  resources: GUARDED_KINDS[danger].resources,
  scope: '*',
});

/** @param principals at least one */
export const guardConditions = (principals: readonly Principal[]): readonly MatchCondition[] => [
  { name: 'restorer', expression: principalExpression(principals) },
  { name: 'changes-permissions', expression: `!(${unchanged('Permissions')})` },
];

/** Permissions depend on other users, whom the API server cannot ask about in an expression. */
const nativeIn = (guarded: GuardedPrincipals) =>
  DANGERS.filter((danger) => danger !== 'Permissions' && (guarded[danger] ?? []).length > 0);

export const guardRules = (guarded: GuardedPrincipals) => nativeIn(guarded).map(guardRule);

export const guardValidations = (guarded: GuardedPrincipals) =>
  nativeIn(guarded).map((danger) => ({
    expression: `request.resource.group != '${GUARDED_KINDS[danger].group}' || !(${principalExpression(guarded[danger] ?? [])}) || (${unchanged(danger)})`,
    message: `spec.guard refuses ${danger} in restores: ${GUARD_ADVICE}`,
    reason: 'Forbidden',
  }));
