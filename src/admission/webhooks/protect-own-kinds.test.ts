import { expect, test } from 'vitest';

import { compileCel } from '../../cel/cel.ts';
import { compileMatchCondition } from '../../cel/match-condition.ts';
import { customResourceDefinitions } from '../../api/crds.ts';
import { notOwnClaims, ownKindsPolicy, OWN_KIND_ENTRIES } from './protect-own-kinds.ts';

const VELERO = { username: 'system:serviceaccount:velero:velero', groups: ['system:serviceaccounts:velero'] };
const OURS = { username: 'system:serviceaccount:gatehouse-system:gatehouse', groups: [] };
const ALICE = { username: 'alice', groups: ['system:authenticated'] };
const window = (expiresAt: string, user = 'restorer') => ({ spec: { principals: [{ user }], expiresAt } });

const { policy } = ownKindsPolicy([{ group: 'system:serviceaccounts:velero' }]);
const { validations } = policy.spec as { readonly validations: readonly { readonly expression: string }[] };
const [{ expression } = { expression: '' }] = validations;
/** A variable replaces the authorizer, which our CEL lacks. */
const OPEN = "authorizer.group('gatehouse.dev').resource('restorewindows').check('open').allowed()";
const allows = (
  userInfo: object,
  operation: string,
  resource: string,
  object: unknown,
  oldObject: unknown,
  mayOpen = true,
  subResource?: string,
) =>
  compileCel(expression.replace(OPEN, 'mayOpen'), ['request', 'object', 'oldObject', 'mayOpen']).evaluate({
    mayOpen,
    request: {
      userInfo,
      operation,
      resource: { group: 'gatehouse.dev', resource },
      ...(subResource && { subResource }),
    },
    object,
    oldObject,
  });

test('S3: a restorer cannot write Gatehouse kinds, even while Gatehouse is down', () => {
  const now = window('2026-11-21T12:00:00Z');
  expect(allows(VELERO, 'CREATE', 'restorewindows', now, null)).toBe(false);
  expect(allows(VELERO, 'DELETE', 'admissionpolicies', null, {})).toBe(false);
  expect(allows(VELERO, 'UPDATE', 'restorewindows', window('2026-11-21T13:00:00Z'), now)).toBe(false);
  expect(allows(VELERO, 'UPDATE', 'restorewindows', window('2026-11-21T11:00:00Z', 'x'), now)).toBe(false);
});

test('a user who may open windows for the whole cluster is never locked out', () => {
  expect(expression).toContain(OPEN);
  const bob = { username: 'bob', groups: VELERO.groups };
  expect(allows(bob, 'DELETE', 'admissionpolicies', null, {})).toBe(true);
  expect(allows(bob, 'DELETE', 'admissionpolicies', null, {}, false)).toBe(false);
});

test('a restorer may shorten its own window without a guard, and other users are unaffected', () => {
  const now = window('2026-11-21T12:00:00Z');
  expect(allows(VELERO, 'UPDATE', 'restorewindows', window('2026-11-21T11:00:00Z'), now)).toBe(true);
  const guarded = { spec: { ...now.spec, guard: { refuse: ['Permissions'] } } };
  expect(allows(VELERO, 'UPDATE', 'restorewindows', window('2026-11-21T11:00:00Z'), guarded)).toBe(false);
  expect(allows(ALICE, 'CREATE', 'restorewindows', now, null)).toBe(true);
  expect(allows(ALICE, 'DELETE', 'admissionpolicies', null, {})).toBe(true);
});

test('the API server can compile the rule', () => {
  expect(compileMatchCondition(expression).type).toBe('bool');
});

test('a restorer cannot write a status, even while Gatehouse is down', () => {
  const swept = window('2026-11-21T12:00:00Z');
  const writes = (userInfo: object, resource: string, mayOpen: boolean) =>
    allows(userInfo, 'UPDATE', resource, swept, swept, mayOpen, 'status');
  expect(writes(VELERO, 'restorewindows', true)).toBe(false);
  expect(writes(VELERO, 'admissionpolicies', true)).toBe(false);
  expect(writes({ username: 'bob', groups: VELERO.groups }, 'restorewindows', true)).toBe(false);
  expect(writes(OURS, 'restorewindows', false)).toBe(true);
});

test('each kind and its status are guarded, with and without Gatehouse, except what users of a namespace own', () => {
  const served = customResourceDefinitions().flatMap(({ manifest }) => {
    const { spec } = manifest as Definition; // customResourceDefinitions returns definitions
    const { plural } = spec.names;
    // A restore of their namespace must not fail because of them, and each ends by its own expiry.
    if (plural === 'policyexceptions') return [];
    return [
      plural,
      ...spec.versions
        .flatMap(({ subresources = {} }) => Object.keys(subresources))
        .map((name) => `${plural}/${name}`),
    ];
  });
  const { matchConstraints } = policy.spec as { readonly matchConstraints: Guarded };
  const resourcesOf = (rules: Guarded['resourceRules']) =>
    [...new Set(rules.flatMap(({ resources }) => resources))].toSorted();
  expect(resourcesOf(matchConstraints.resourceRules)).toEqual(served.toSorted());
  const validating = OWN_KIND_ENTRIES.filter(({ phase }) => phase === 'validate');
  // PolicyExceptions only get warnings.
  const asked = [...served, 'policyexceptions'].toSorted();
  expect(resourcesOf(validating.flatMap(({ rules }) => rules))).toEqual(asked);
});

test('the API server asks nothing about the claims of Gatehouse itself', () => {
  const asks = (username: string, resource: string) =>
    compileMatchCondition(notOwnClaims('own').expression).evaluate({
      request: { userInfo: { username }, resource: { resource } },
    });
  expect(asks('system:serviceaccount:own:gatehouse-webhook', 'uniqueclaims')).toBe(false);
  expect(asks('system:serviceaccount:own:gatehouse-controllers', 'uniqueclaims')).toBe(false);
  expect(asks('system:serviceaccount:own:gatehouse-webhook', 'admissionpolicies')).toBe(true);
  expect(asks('system:serviceaccount:other:gatehouse-webhook', 'uniqueclaims')).toBe(true);
  expect(asks('alice', 'uniqueclaims')).toBe(true);
});

interface Definition {
  readonly spec: {
    readonly names: { readonly plural: string };
    readonly versions: readonly { readonly subresources?: object }[];
  };
}
interface Guarded {
  readonly resourceRules: readonly { readonly resources: readonly string[] }[];
}
