/** Only one version of a compiled policy refuses or changes the dry run of its UniqueClaim, which proves that it is enforced. */
import { createHash } from 'node:crypto';

import { GROUP, VERSION } from '../../api/group.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { listIn, objectIn, textIn, valueIn } from '../../json/json.ts';
import { matchesSelector, type NormalSelector } from '../../json/label-selector.ts';

const RESOURCE = 'uniqueclaims';
/** 80 bits, so two versions of a policy never share a probe. */
const DIGEST_LENGTH = 20;

export const digestOf = (...specs: readonly object[]): string =>
  createHash('sha256').update(JSON.stringify(specs)).digest('hex').slice(0, DIGEST_LENGTH);

const claimName = (digest: string) => `probe-${digest}`;
const refusal = (digest: string) => `refused as a probe of the compiled policy ${digest}`;
const change = (digest: string) => `changed by the compiled policy ${digest}`;

export const isRefusalOf = (digest: string, message: string): boolean => message.includes(refusal(digest));

export const isChangeOf = (digest: string, { spec: { values } }: Pick<UniqueClaim, 'spec'>): boolean =>
  values.includes(change(digest));

export function withProbe(spec: object, digest: string): object {
  const name = claimName(digest);
  const isProbe =
    `request.resource.group == '${GROUP}' && request.resource.resource == '${RESOURCE}' && ` +
    `has(request.name) && request.name == '${name}'`;
  const constraints = objectIn(spec, 'matchConstraints');
  return {
    ...spec,
    matchConstraints: {
      ...constraints,
      resourceRules: [
        ...listIn(constraints, 'resourceRules'),
        {
          // With a star, kube-controller-manager does not check the types of the validations against UniqueClaims.
          apiGroups: [GROUP],
          apiVersions: ['*'],
          resources: [RESOURCE],
          operations: ['CREATE'],
          resourceNames: [name],
          scope: '*',
        },
      ],
    },
    matchConditions: listIn(spec, 'matchConditions').map((condition) => ({
      name: textIn(condition, 'name'),
      expression: `(${isProbe}) || (${textIn(condition, 'expression')}\n)`,
    })),
    ...(valueIn(spec, 'mutations') === undefined
      ? {
          // Comes first, because the API server reports only the first violation.
          validations: [
            { expression: `!(${isProbe})`, message: refusal(digest), reason: 'Forbidden' },
            ...listIn(spec, 'validations'),
          ],
        }
      : { mutations: [patchIf(isProbe, patchOf(digest)), ...mutationsUnless(isProbe, spec)] }),
  };
}

const patchIf = (condition: string, patches: string, otherwise = '[]') => ({
  patchType: 'JSONPatch',
  jsonPatch: { expression: `(${condition}) ? ${patches} : ${otherwise}` },
});

const patchOf = (digest: string) =>
  `[JSONPatch{op: "add", path: "/spec/values", value: [${JSON.stringify(change(digest))}]}]`;

const mutationsUnless = (isProbe: string, spec: object) =>
  listIn(spec, 'mutations').map((mutation) =>
    patchIf(isProbe, '[]', textIn(mutation, 'jsonPatch', 'expression')),
  );

/** The claim to create as a dry run; undefined if no labels satisfy the objectSelector. */
export function probeOf(digest: string, objectSelector: NormalSelector, now: Date): UniqueClaim | undefined {
  const labels = labelsFor(objectSelector);
  if (labels === undefined) return undefined;
  return {
    apiVersion: `${GROUP}/${VERSION}`,
    kind: 'UniqueClaim',
    metadata: { name: claimName(digest), labels },
    spec: {
      policy: 'probe',
      rule: 'probe',
      values: [],
      claimedAt: now.toISOString(),
      holder: { group: '', resource: 'configmaps', name: 'probe' },
    },
  };
}

function labelsFor(selector: NormalSelector): Readonly<Record<string, string>> | undefined {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  const labels: Record<string, string> = { ...matchLabels };
  for (const { key, operator, values = [] } of matchExpressions) {
    const [first] = values;
    if (operator === 'In' && first !== undefined) labels[key] ??= first;
  }
  for (const { key, operator } of matchExpressions) if (operator === 'Exists') labels[key] ??= 'probe';
  return matchesSelector(selector, labels) ? labels : undefined;
}
