import { CelError } from '../../../cel/cel.ts';
import { RESERVED_WORDS } from '../../../cel/syntax/parse.ts';
import type { JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { has, record, records, section, spec, text, texts } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import {
  label1035Problem,
  labelKeyProblems,
  pathSegmentProblem,
  subdomainProblem,
} from '../../name-problems.ts';
import { compilePolicy, type Expression, type PolicyExpressions } from '../../policies/compile-policy.ts';
import {
  duplicateValue,
  forbiddenValue,
  invalidIf,
  invalidValue,
  invalidValues,
  notAmong,
  requiredAmong,
  requiredValue,
  tooMany,
  unsupportedValue,
  when,
} from '../../schema/causes.ts';
import { selectorProblems } from '../../selectors/label-selector.ts';
import {
  conditionNameProblems,
  MOST_CONDITIONS,
  webhookRuleProblems,
  wordProblem,
} from './webhook-configuration.ts';

// The rules of pkg/apis/admissionregistration/validation/validation.go.

const REASONS = ['Forbidden', 'Invalid', 'RequestEntityTooLarge'];
const MOST_ANNOTATIONS = 20;
const LONGEST_VALUE_EXPRESSION = 5 * 1024;
const ACTIONS = ['Audit', 'Deny', 'Warn'];
const NEITHER = 'validations or auditAnnotations must contain at least one item';

/** The problems of a ValidatingAdmissionPolicy. */
export function policyProblems(policy: ApiObject): readonly Cause[] {
  const given = spec(policy);
  const [validations, annotations] = [records(given, 'validations'), records(given, 'auditAnnotations')];
  const compiled = compilePolicy(given);
  const expressions = [
    ...compiled.validations.flatMap(({ expression, messageExpression }) =>
      messageExpression === undefined ? [expression] : [expression, messageExpression],
    ),
    ...compiled.auditAnnotations.map(({ expression }) => expression),
  ];
  return [
    ...commonProblems(given, compiled),
    ...expressions.flatMap(expressionProblems),
    ...validations.flatMap((validation, index) => textProblems(validation, `spec.validations[${index}]`)),
    ...when(
      validations.length + annotations.length === 0,
      requiredValue('spec.validations', NEITHER),
      requiredValue('spec.auditAnnotations', NEITHER),
    ),
    ...auditAnnotationProblems(annotations, policy.metadata.name ?? ''),
  ];
}

/** The problems of what policies of both kinds have. */
function commonProblems(given: JsonObject, { conditions, variables }: PolicyExpressions): readonly Cause[] {
  const named = records(given, 'matchConditions');
  return [
    ...wordProblem(given, 'failurePolicy', ['Fail', 'Ignore'], 'spec'),
    ...paramKindProblems(given),
    ...(has(given, 'matchConstraints')
      ? matchProblems(section(given, 'matchConstraints'), 'spec.matchConstraints')
      : [requiredValue('spec.matchConstraints')]),
    ...when(named.length > MOST_CONDITIONS, tooMany('spec.matchConditions', named.length, MOST_CONDITIONS)),
    ...named.flatMap((_, index) => conditionNameProblems(named, index, 'spec.matchConditions')),
    ...conditions.flatMap(expressionProblems),
    ...variableNameProblems(given),
    ...variables.flatMap(({ expression }) => expressionProblems(expression)),
  ];
}

const OPERATIONS = ['*', 'CONNECT', 'CREATE', 'UPDATE'];
const BODIES = { ApplyConfiguration: 'applyConfiguration', JSONPatch: 'jsonPatch' } as const;

/** The problems of a MutatingAdmissionPolicy. */
export function mutatingPolicyProblems(policy: ApiObject): readonly Cause[] {
  const given = spec(policy);
  const compiled = compilePolicy(given);
  const mutations = records(given, 'mutations');
  return [
    ...commonProblems(given, compiled),
    ...operationProblems(section(given, 'matchConstraints'), 'spec.matchConstraints'),
    ...when(
      mutations.length === 0,
      requiredValue('spec.mutations', 'mutations must contain at least one item'),
    ),
    ...mutations.flatMap((mutation, index) => {
      const at = `spec.mutations[${index}]`;
      const own = compiled.mutations.filter(({ expression }) => expression.path.startsWith(`${at}.`));
      return [
        ...own.flatMap(({ expression }) =>
          expression.text === '' ? [requiredValue(expression.path)] : expressionProblems(expression),
        ),
        ...bodyProblems(mutation, at),
      ];
    }),
    ...requiredAmong('spec.reinvocationPolicy', text(given, 'reinvocationPolicy'), ['IfNeeded', 'Never']),
  ];
}

/** A mutation has the body of its patch type, and no other. */
function bodyProblems(mutation: JsonObject, at: string): readonly Cause[] {
  const patchType = text(mutation, 'patchType');
  if (patchType !== 'ApplyConfiguration' && patchType !== 'JSONPatch')
    return requiredAmong(`${at}.patchType`, patchType, Object.keys(BODIES));
  const own = BODIES[patchType];
  const other = patchType === 'JSONPatch' ? BODIES.ApplyConfiguration : BODIES.JSONPatch;
  const specified = `specified when patchType is ${patchType}`;
  return [
    ...when(!has(mutation, own), requiredValue(`${at}.${own}`, `must be ${specified}`)),
    ...when(has(mutation, other), invalidValue(`${at}.${other}`, `{${other}}`, `must not be ${specified}`)),
  ];
}

/** Nothing is left to change in a deletion. */
const operationProblems = (match: JsonObject, at: string): readonly Cause[] =>
  records(match, 'resourceRules').flatMap((rule) =>
    texts(rule, 'operations')
      .filter((operation) => operation === 'DELETE')
      .map((operation) => unsupportedValue(`${at}.resourceRules.operations`, operation, OPERATIONS)),
  );

/** The problems of a validation, except those of its expressions. */
function textProblems(validation: JsonObject, at: string): readonly Cause[] {
  const isBlank = (name: string) => text(validation, name) !== '' && text(validation, name).trim() === '';
  const message = text(validation, 'message');
  return [
    ...['messageExpression', 'message']
      .filter(isBlank)
      .map((name) => invalidValue(`${at}.${name}`, text(validation, name), 'must be non-empty if specified')),
    ...when(
      /[\n\r]/.test(message.trim()),
      invalidValue(`${at}.message`, message, 'must not contain line breaks'),
    ),
    ...wordProblem(validation, 'reason', REASONS, at),
  ];
}

/** A key is a qualified name after the name of the policy. */
function auditAnnotationProblems(annotations: readonly JsonObject[], policyName: string): readonly Cause[] {
  const keys = annotations.map((annotation) => text(annotation, 'key'));
  const shown = annotations.map((annotation) => ({
    Key: text(annotation, 'key'),
    ValueExpression: text(annotation, 'valueExpression'),
  }));
  const excess = `must not have more than ${MOST_ANNOTATIONS} auditAnnotations`;
  return [
    ...when(annotations.length > MOST_ANNOTATIONS, invalidValue('spec.auditAnnotations', shown, excess)),
    ...keys.flatMap((key, index) => {
      const at = `spec.auditAnnotations[${index}].key`;
      const name = `${policyName}/${key}`;
      return [
        ...invalidValues(at, name, labelKeyProblems(name)),
        ...when(keys.indexOf(key) < index, duplicateValue(at, key)),
      ];
    }),
  ];
}

/** The problems of a ValidatingAdmissionPolicyBinding. */
export function bindingProblems(binding: ApiObject): readonly Cause[] {
  const actions = texts(spec(binding), 'validationActions');
  const at = 'spec.validationActions';
  const both =
    'must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)';
  return [
    ...commonBindingProblems(spec(binding)),
    ...when(actions.length === 0, requiredValue(at)),
    ...actions.flatMap((action, index) => [
      ...notAmong(`${at}[${index}]`, action, ACTIONS),
      ...when(actions.indexOf(action) < index, duplicateValue(`${at}[${index}]`, action)),
    ]),
    ...when(actions.includes('Deny') && actions.includes('Warn'), invalidValue(at, actions, both)),
  ];
}

/** The problems of a MutatingAdmissionPolicyBinding. */
export const mutatingBindingProblems = (binding: ApiObject): readonly Cause[] => [
  ...commonBindingProblems(spec(binding)),
  ...operationProblems(section(binding, 'spec', 'matchResources'), 'spec.matchResources'),
];

function commonBindingProblems(given: JsonObject): readonly Cause[] {
  const name = text(given, 'policyName');
  const field = 'spec.policyName';
  return [
    ...(name === '' ? [requiredValue(field)] : invalidIf(field, name, subdomainProblem(name))),
    ...paramRefProblems(given),
    ...matchProblems(section(given, 'matchResources'), 'spec.matchResources', false),
  ];
}

function matchProblems(match: JsonObject, field: string, needsRules = true): readonly Cause[] {
  const rules = (name: string) =>
    records(match, name).flatMap((rule, index) => [
      ...resourceNameProblems(texts(rule, 'resourceNames'), `${field}.${name}[${index}].resourceNames`),
      ...webhookRuleProblems(rule, `${field}.${name}[${index}]`),
    ]);
  const lacksRules = needsRules && records(match, 'resourceRules').length === 0;
  return [
    ...wordProblem(match, 'matchPolicy', ['Equivalent', 'Exact'], field),
    ...['namespaceSelector', 'objectSelector'].flatMap((name) =>
      selectorProblems(record(match, name) ?? {}, `${field}.${name}`),
    ),
    ...rules('resourceRules'),
    ...rules('excludeResourceRules'),
    ...when(lacksRules, requiredValue(`${field}.resourceRules`)),
  ];
}

const resourceNameProblems = (names: readonly string[], field: string): readonly Cause[] =>
  names.flatMap((name, index) => [
    ...invalidIf(`${field}[${index}]`, name, pathSegmentProblem(name)),
    ...when(names.indexOf(name) < index, duplicateValue(`${field}[${index}]`, name)),
  ]);

const IDENTIFIER = /^(?!(?:true|false|null|in)$)[_a-zA-Z][_a-zA-Z0-9]*$/;

function variableNameProblems(given: JsonObject): readonly Cause[] {
  return records(given, 'variables').flatMap((variable, index) => {
    const name = text(variable, 'name');
    const at = `spec.variables[${index}].name`;
    if (name === '') return [requiredValue(at, 'name is not specified')];
    const isName = IDENTIFIER.test(name) && !RESERVED_WORDS.has(name);
    return when(!isName, invalidValue(at, name, 'must be a valid CEL identifier'));
  });
}

function expressionProblems({ text: source, path, program }: Expression): readonly Cause[] {
  const [list = '', field = ''] = path.split(/\[\d+\]\./);
  if (source === '') {
    if (field === 'messageExpression') return []; // a blank one is a problem of its own
    return [requiredValue(path, list === 'spec.matchConditions' ? '' : `${field} is not specified`)];
  }
  if (field === 'valueExpression' && Buffer.byteLength(source) > LONGEST_VALUE_EXPRESSION)
    return [requiredValue(path, `must not exceed ${LONGEST_VALUE_EXPRESSION} bytes in length`)];
  if (!(program instanceof CelError)) return [];
  const { message } = program;
  const detail = message.startsWith('must evaluate to') ? message : `compilation failed: ${message}`;
  return [invalidValue(path, source, detail)];
}

/** The problems of `spec.paramKind`. */
function paramKindProblems(given: JsonObject): readonly Cause[] {
  const kind = record(given, 'paramKind');
  if (kind === undefined) return [];
  const at = 'spec.paramKind.kind';
  const name = text(kind, 'kind');
  const problem = label1035Problem(name.toLowerCase());
  return [
    ...versionProblems(text(kind, 'apiVersion'), 'spec.paramKind.apiVersion'),
    ...(name === ''
      ? [requiredValue(at)]
      : invalidIf(at, name, problem && `may have mixed case, but should otherwise match: ${problem}`)),
  ];
}

function versionProblems(apiVersion: string, at: string): readonly Cause[] {
  if (apiVersion === '') return [requiredValue(at)];
  const parts = apiVersion.split('/');
  return invalidIf(
    at,
    apiVersion,
    parts.length > 2 ? `unexpected GroupVersion string: ${apiVersion}` : label1035Problem(parts.at(-1) ?? ''),
  );
}

/** The problems of `spec.paramRef`. */
function paramRefProblems(given: JsonObject): readonly Cause[] {
  const ref = record(given, 'paramRef');
  if (ref === undefined) return [];
  const at = 'spec.paramRef';
  const name = text(ref, 'name');
  const exclusive = 'name and selector are mutually exclusive';
  return [
    ...(name === '' ? [] : invalidIf(`${at}.name`, name, pathSegmentProblem(name))),
    ...when(
      name !== '' && has(ref, 'selector'),
      forbiddenValue(`${at}.name`, exclusive),
      forbiddenValue(`${at}.selector`, exclusive),
    ),
    ...when(
      name === '' && !has(ref, 'selector'),
      requiredValue(at, 'one of name or selector must be specified'),
    ),
    ...selectorProblems(record(ref, 'selector') ?? {}, `${at}.selector`),
    ...requiredAmong(`${at}.parameterNotFoundAction`, text(ref, 'parameterNotFoundAction'), [
      'Deny',
      'Allow',
    ]),
  ];
}
