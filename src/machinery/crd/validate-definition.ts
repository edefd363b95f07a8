import { isEqual, isJsonObject } from '../../json/json.ts';
import type { ApiObject } from '../api-object.ts';
import type { Cause } from '../failure.ts';
import { invalidValue, requiredValue, forbiddenValue, unsupportedValue } from '../schema/causes.ts';
import {
  APPROVAL_FIELD,
  apiApprovalOf,
  isConditionTrue,
  readDefinition,
  storedVersions,
  type Definition,
  type DefinitionNames,
  type DefinitionVersion,
  type Conversion,
} from './definition.ts';
import { label1035Problem, subdomainProblem } from '../dns-names.ts';
import {
  columnProblems,
  deprecationProblems,
  scaleProblems,
  schemaProblems,
  selectableFieldProblems,
} from './validate-version.ts';
import { clientConfigProblems } from '../kinds/webhooks/client-config-problems.ts';

/**
 * The problems of a definition, and of the change from `old` if given. Wording, order and fields follow
 * k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
 */
export function validateDefinition(crd: ApiObject, old?: ApiObject): readonly Cause[] {
  const definition = readDefinition(crd);
  return [
    ...(old === undefined ? nameProblems(crd, definition) : []),
    ...specProblems(crd, definition),
    ...(old === undefined ? [] : changeProblems(definition, old)),
    ...storedVersionProblems(crd, definition),
    ...approvalProblems(crd, definition, old),
    ...(definition.preserveUnknownFields
      ? [
          invalidValue(
            'spec.preserveUnknownFields',
            true,
            'cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead',
          ),
        ]
      : []),
  ];
}

function nameProblems(
  { metadata: { name = '' } }: ApiObject,
  { names, group }: Definition,
): readonly Cause[] {
  if (name === `${names.plural}.${group}`) return [];
  return [invalidValue('metadata.name', name, 'must be spec.names.plural+"."+spec.group')];
}

function specProblems(crd: ApiObject, definition: Definition): readonly Cause[] {
  const { scope, names, versions, conversion } = definition;
  return [
    ...groupProblems(definition.group),
    ...wordProblems('spec.scope', scope, ['Cluster', 'Namespaced']),
    ...versions.flatMap(({ schema }, index) =>
      schema === undefined ? [requiredValue(`spec.versions[${index}].schema.openAPIV3Schema`)] : [],
    ),
    ...versions.flatMap((version, index) => versionNameProblems(version, `spec.versions[${index}]`)),
    ...versionPartProblems(versions),
    ...versionListProblems(crd, versions),
    ...(['plural', 'singular', 'kind', 'listKind'] as const).flatMap((name) =>
      names[name] === '' ? [requiredValue(`spec.names.${name}`)] : [],
    ),
    ...namesProblems(names, 'spec.names'),
    ...conversionProblems(conversion),
  ];
}

function groupProblems(group: string): readonly Cause[] {
  if (group === '') return [requiredValue('spec.group')];
  const problem = subdomainProblem(group);
  if (problem !== undefined) return [invalidValue('spec.group', group, problem)];
  return group.includes('.')
    ? []
    : [invalidValue('spec.group', group, 'should be a domain with at least one dot')];
}

function versionNameProblems(version: DefinitionVersion, path: string): readonly Cause[] {
  const problem = label1035Problem(version.name);
  return [
    ...(problem === undefined ? [] : [invalidValue(`${path}.name`, version.name, problem)]),
    ...deprecationProblems(version, path),
  ];
}

/**
 * Problems in parts of versions. If a part is the same in all versions, the API server keeps it once at the top of
 * its internal type and reports it there: `spec.validation` instead of `spec.versions[0].schema`.
 */
function versionPartProblems(versions: readonly DefinitionVersion[]): readonly Cause[] {
  const check = <Part>(
    partOf: (version: DefinitionVersion) => Part,
    key: string,
    sharedKey: string,
    problems: (part: Part, path: string, owners: readonly DefinitionVersion[]) => readonly Cause[],
  ): readonly Cause[] => {
    const [first, ...others] = versions;
    if (first === undefined) return [];
    const part = partOf(first);
    if (others.every((version) => isEqual(partOf(version), part))) {
      return problems(part, `spec.${sharedKey}`, versions);
    }
    return versions.flatMap((version, index) =>
      problems(partOf(version), `spec.versions[${index}].${key}`, [version]),
    );
  };

  return [
    ...check(
      ({ schema }) => schema,
      'schema',
      'validation',
      (schema, path, owners) => {
        const hasStatus = owners.some((version) => version.hasStatus);
        return schema === undefined ? [] : schemaProblems(schema, path, hasStatus);
      },
    ),
    ...check(({ scale }) => scale, 'subresources', 'subresources', scaleProblems),
    ...check(
      ({ columns }) => columns,
      'additionalPrinterColumns',
      'additionalPrinterColumns',
      columnProblems,
    ),
    ...check(
      ({ selectableFields }) => selectableFields,
      'selectableFields',
      'selectableFields',
      (paths, path, [owner]) => selectableFieldProblems(paths, owner?.schema, path),
    ),
  ];
}

function versionListProblems(crd: ApiObject, versions: readonly DefinitionVersion[]): readonly Cause[] {
  const shown = (isJsonObject(crd.spec) ? crd.spec.versions : undefined) ?? null;
  const invalid = (why: string) => invalidValue('spec.versions', shown, why);
  const names = new Set(versions.map(({ name }) => name));
  return [
    ...(names.size === versions.length ? [] : [invalid('must contain unique version names')]),
    ...(versions.filter(({ storage }) => storage).length === 1
      ? []
      : [invalid('must have exactly one version marked as storage version')]),
    // The API server's internal type repeats the name of the first version.
    ...versions.slice(0, 1).flatMap(({ name }) => {
      const problem = label1035Problem(name);
      return problem === undefined ? [] : [invalidValue('spec.version', name, problem)];
    }),
  ];
}

function namesProblems(names: DefinitionNames, path: string): readonly Cause[] {
  const word = (field: string, value: string) => {
    const problem = value === '' ? undefined : label1035Problem(value);
    return problem === undefined ? [] : [invalidValue(`${path}.${field}`, value, problem)];
  };
  const kind = (field: 'kind' | 'listKind') => {
    const problem = names[field] === '' ? undefined : label1035Problem(names[field].toLowerCase());
    if (problem === undefined) return [];
    return [
      invalidValue(
        `${path}.${field}`,
        names[field],
        `may have mixed case, but should otherwise match: ${problem}`,
      ),
    ];
  };
  const areSame = names.kind !== '' && names.kind === names.listKind;
  return [
    ...word('plural', names.plural),
    ...word('singular', names.singular),
    ...kind('kind'),
    ...kind('listKind'),
    ...names.shortNames.flatMap((name, index) => word(`shortNames[${index}]`, name)),
    ...(areSame
      ? [invalidValue(`${path}.listKind`, names.listKind, 'kind and listKind may not be the same')]
      : []),
    ...names.categories.flatMap((name, index) => word(`categories[${index}]`, name)),
  ];
}

/** Group and plural determine where objects are stored; scope and kind are fixed once objects may exist. */
function changeProblems(definition: Definition, old: ApiObject): readonly Cause[] {
  const before = readDefinition(old);
  const immutable = (field: string, value: string, oldValue: string) =>
    value === oldValue ? [] : [invalidValue(field, value, 'field is immutable')];
  return [
    ...(isConditionTrue(old, 'Established')
      ? [
          ...immutable('spec.scope', definition.scope, before.scope),
          ...immutable('spec.names.kind', definition.names.kind, before.names.kind),
        ]
      : []),
    ...immutable('spec.group', definition.group, before.group),
    ...immutable('spec.names.plural', definition.names.plural, before.names.plural),
  ];
}

function storedVersionProblems(crd: ApiObject, { versions }: Definition): readonly Cause[] {
  const field = 'status.storedVersions';
  const stored = storedVersions(crd);
  if (stored.length === 0) return [invalidValue(field, stored, 'must have at least one stored version')];
  const missing = versions.filter(({ name, storage }) => storage && !stored.includes(name));
  const unknown = stored.flatMap((name, index) =>
    versions.some((version) => version.name === name) ? [] : [{ name, index }],
  );
  return [
    ...missing.map(({ name }) => invalidValue(field, stored, `must have the storage version ${name}`)),
    ...unknown.map(({ name, index }) =>
      invalidValue(
        `${field}[${index}]`,
        name,
        `missing from spec.versions; ${name} was previously a storage version, and must remain in spec.versions until a ` +
          `storage migration ensures no data remains persisted in ${name} and removes ${name} from status.storedVersions`,
      ),
    ),
  ];
}

function approvalProblems(
  crd: ApiObject,
  { group }: Definition,
  old: ApiObject | undefined,
): readonly Cause[] {
  const approval = apiApprovalOf(crd, group);
  if (approval === undefined) return [];
  // A definition that was accepted without approval may still be updated.
  if (old !== undefined && apiApprovalOf(old, group)?.state === approval.state) return [];
  switch (approval.state) {
    case 'missing':
      return [requiredValue(APPROVAL_FIELD, approval.reason)];
    case 'invalid':
      return [invalidValue(APPROVAL_FIELD, approval.annotation, approval.reason)];
    case 'approved':
    case 'bypassed':
      return [];
  }
}

const REVIEW_VERSIONS = ['v1', 'v1beta1'];

// The API server reports these paths from its internal type, which has no `webhook` level.
const CONVERSION = 'spec.conversion';

const CLIENT_CONFIG = `${CONVERSION}.webhookClientConfig`;

const VERSIONS = `${CONVERSION}.conversionReviewVersions`;

function conversionProblems(conversion: Conversion | undefined): readonly Cause[] {
  if (conversion === undefined) return [];
  const { strategy, webhook } = conversion;
  const problems = wordProblems(`${CONVERSION}.strategy`, strategy, ['None', 'Webhook']);
  if (strategy === 'Webhook') {
    const { clientConfig, reviewVersions = [] } = webhook ?? {};
    return [
      ...problems,
      ...(clientConfig === undefined
        ? [requiredValue(CLIENT_CONFIG, 'required when strategy is set to Webhook')]
        : clientConfigProblems(clientConfig, CLIENT_CONFIG)),
      ...reviewVersionProblems(reviewVersions),
    ];
  }
  const why = 'should not be set when strategy is not set to Webhook';
  return [
    ...problems,
    ...(webhook?.clientConfig === undefined ? [] : [forbiddenValue(CLIENT_CONFIG, why)]),
    ...(webhook === undefined || webhook.reviewVersions.length === 0 ? [] : [forbiddenValue(VERSIONS, why)]),
  ];
}

function reviewVersionProblems(versions: readonly string[]): readonly Cause[] {
  if (versions.length === 0) return [requiredValue(VERSIONS)];
  const each = versions.flatMap((version, index) => {
    const field = `${VERSIONS}[${index}]`;
    if (versions.indexOf(version) < index) return [invalidValue(field, version, 'duplicate version')];
    const problem = label1035Problem(version);
    return problem === undefined ? [] : [invalidValue(field, version, problem)];
  });
  const isKnown = versions.some((version) => REVIEW_VERSIONS.includes(version));
  return isKnown
    ? each
    : [
        ...each,
        invalidValue(VERSIONS, versions, `must include at least one of ${REVIEW_VERSIONS.join(', ')}`),
      ];
}

/** For fields that allow only a few values; an empty value counts as absent. */
function wordProblems(field: string, value: string, supported: readonly string[]): readonly Cause[] {
  if (value === '') return [requiredValue(field)];
  return supported.includes(value) ? [] : [unsupportedValue(field, value, supported)];
}
