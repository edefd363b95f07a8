import { expect, test } from 'vitest';

import { explainRefusal } from './missing-rule.ts';

test('a missing permission names the rule to add', () => {
  const message =
    'resourcequotas "user" is forbidden: User "system:serviceaccount:gatehouse-system:gatehouse" cannot patch resource "resourcequotas" in API group "" in the namespace "ann"';
  expect(explainRefusal(message)).toBe(
    `Gatehouse needs the rule {"apiGroups":[""],"resources":["resourcequotas"],"verbs":["patch"]}: apply the output of "gatehouse manifests --handlers", or add it to "rules" of the controller: ${message}`,
  );
});

test('a role with more permissions than Gatehouse names the verb', () => {
  const message =
    'rolebindings "user" is forbidden: user "gatehouse" (groups=[]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[""]}';
  expect(explainRefusal(message)).toMatch(/^Gatehouse needs the verb "bind" for the role/);
});

test('a refusal by a webhook stays as it is', () => {
  const message = 'admission webhook "x" denied the request: you cannot patch resource quotas';
  expect(explainRefusal(message)).toBe(message);
});
