import { CelError } from '../../../cel/cel.ts';
import { RESERVED_WORDS } from '../../../cel/syntax/parse.ts';
import type { JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { has, record, records, section, text, texts } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { compilePolicy, type Expression } from '../../policies/compile-policy.ts';
import {
  duplicateValue,
  invalidValue,
  requiredValue,
  tooMany,
  unsupportedValue,
} from '../../schema/causes.ts';
import { subdomainProblem } from '../../dns-names.ts';
import { labelKeyProblems } from '../../selectors/label-syntax.ts';
import { selectorProblems } from '../label-problems.ts';
import { pathSegmentProblem } from '../name-problems.ts';
import { paramKindProblems, paramRefProblems } from './param-problems.ts';
import { webhookRuleProblems } from './webhook-rule-problems.ts';

// The rules of pkg/apis/admissionregistration/validation/validation.go.

const REASONS = ['Forbidden', 'Invalid', 'RequestEntityTooLarge'];
const MOST_CONDITIONS = 64;
const MOST_ANNOTATIONS = 20;
const LONGEST_VALUE_EXPRESSION = 5 * 1024;
const ACTIONS = ['Audit', 'Deny', 'Warn'];
const NEITHER = 'validations or auditAnnotations must contain at least one item';

/** The problems of a ValidatingAdmissionPolicy. */
export function policyProblems(policy: ApiObject): readonly Cause[] {
  const spec = section(policy, 'spec');
  const isEmpty = records(spec, 'validations').length === 0 && records(spec, 'auditAnnotations').length === 0;
  return [
    ...wordProblem(spec, 'failurePolicy', ['Fail', 'Ignore'], 'spec'),
    ...paramKindProblems(spec),
    ...(has(spec, 'matchConstraints')
      ? matchProblems(section(spec, 'matchConstraints'), 'spec.matchConstraints')
      : [requiredValue('spec.matchConstraints')]),
    ...conditionNameProblems(spec),
    ...variableNameProblems(spec),
    ...expressionsOf(spec).flatMap(expressionProblems),
    ...records(spec, 'validations').flatMap((validation, index) =>
      textProblems(validation, `spec.validations[${index}]`),
    ),
    ...(isEmpty
      ? [requiredValue('spec.validations', NEITHER), requiredValue('spec.auditAnnotations', NEITHER)]
      : []),
    ...auditAnnotationProblems(spec, policy.metadata.name ?? ''),
  ];
}

/** The problems of a validation, except those of its expressions. */
function textProblems(validation: JsonObject, at: string): readonly Cause[] {
  const isBlank = (name: string) => text(validation, name) !== '' && text(validation, name).trim() === '';
  const message = text(validation, 'message');
  return [
    ...['messageExpression', 'message']
      .filter(isBlank)
      .map((name) => invalidValue(`${at}.${name}`, text(validation, name), 'must be non-empty if specified')),
    ...(/[\n\r]/.test(message.trim())
      ? [invalidValue(`${at}.message`, message, 'must not contain line breaks')]
      : []),
    ...wordProblem(validation, 'reason', REASONS, at),
  ];
}

/** A key is a qualified name after the name of the policy. */
function auditAnnotationProblems(spec: JsonObject, policyName: string): readonly Cause[] {
  const annotations = records(spec, 'auditAnnotations');
  const keys = annotations.map((annotation) => text(annotation, 'key'));
  const excess =
    annotations.length > MOST_ANNOTATIONS
      ? [
          invalidValue(
            'spec.auditAnnotations',
            annotations.map((annotation) => ({
              Key: text(annotation, 'key'),
              ValueExpression: text(annotation, 'valueExpression'),
            })),
            `must not have more than ${MOST_ANNOTATIONS} auditAnnotations`,
          ),
        ]
      : [];
  return [
    ...excess,
    ...keys.flatMap((key, index) => {
      const at = `spec.auditAnnotations[${index}].key`;
      const name = `${policyName}/${key}`;
      return [
        ...labelKeyProblems(name).map((problem) => invalidValue(at, name, problem)),
        ...(keys.indexOf(key) < index ? [duplicateValue(at, key)] : []),
      ];
    }),
  ];
}

/** The problems of a ValidatingAdmissionPolicyBinding. */
export function bindingProblems(binding: ApiObject): readonly Cause[] {
  const spec = section(binding, 'spec');
  const actions = texts(spec, 'validationActions');
  const at = 'spec.validationActions';
  return [
    ...policyNameProblems(spec),
    ...paramRefProblems(spec),
    ...matchProblems(section(spec, 'matchResources'), 'spec.matchResources', false),
    ...(actions.length === 0 ? [requiredValue(at)] : []),
    ...actions.flatMap((action, index) => [
      ...(ACTIONS.includes(action) ? [] : [unsupportedValue(`${at}[${index}]`, action, ACTIONS)]),
      ...(actions.indexOf(action) < index ? [duplicateValue(`${at}[${index}]`, action)] : []),
    ]),
    ...(actions.includes('Deny') && actions.includes('Warn')
      ? [
          invalidValue(
            at,
            actions,
            'must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)',
          ),
        ]
      : []),
  ];
}

export function policyNameProblems(spec: JsonObject): readonly Cause[] {
  const name = text(spec, 'policyName');
  if (name === '') return [requiredValue('spec.policyName')];
  const problem = subdomainProblem(name);
  return problem === undefined ? [] : [invalidValue('spec.policyName', name, problem)];
}

export function matchProblems(match: JsonObject, field: string, needsRules = true): readonly Cause[] {
  const rules = (name: string) =>
    records(match, name).flatMap((rule, index) => [
      ...resourceNameProblems(texts(rule, 'resourceNames'), `${field}.${name}[${index}].resourceNames`),
      ...webhookRuleProblems(rule, `${field}.${name}[${index}]`),
    ]);
  return [
    ...wordProblem(match, 'matchPolicy', ['Equivalent', 'Exact'], field),
    ...['namespaceSelector', 'objectSelector'].flatMap((name) =>
      selectorProblems(record(match, name) ?? {}, `${field}.${name}`),
    ),
    ...rules('resourceRules'),
    ...rules('excludeResourceRules'),
    ...(needsRules && records(match, 'resourceRules').length === 0
      ? [requiredValue(`${field}.resourceRules`)]
      : []),
  ];
}

const resourceNameProblems = (names: readonly string[], field: string): readonly Cause[] =>
  names.flatMap((name, index) => {
    const at = `${field}[${index}]`;
    const problem = pathSegmentProblem(name);
    return [
      ...(problem === undefined ? [] : [invalidValue(at, name, problem)]),
      ...(names.indexOf(name) < index ? [duplicateValue(at, name)] : []),
    ];
  });

export function wordProblem(
  parent: JsonObject,
  name: string,
  supported: readonly string[],
  field: string,
): readonly Cause[] {
  const word = text(parent, name);
  if (!has(parent, name) || supported.includes(word)) return [];
  return [unsupportedValue(`${field}.${name}`, word, supported)];
}

export function conditionNameProblems(spec: JsonObject): readonly Cause[] {
  const conditions = records(spec, 'matchConditions');
  const excess =
    conditions.length > MOST_CONDITIONS
      ? [tooMany('spec.matchConditions', conditions.length, MOST_CONDITIONS)]
      : [];
  const names = conditions.map((condition) => text(condition, 'name'));
  const problems = names.flatMap((name, index) => {
    const at = `spec.matchConditions[${index}].name`;
    if (name === '') return [requiredValue(at)];
    return [
      ...labelKeyProblems(name).map((problem) => invalidValue(at, name, problem)),
      ...(names.indexOf(name) < index ? [duplicateValue(at, name)] : []),
    ];
  });
  return [...excess, ...problems];
}

const IDENTIFIER = /^(?!(?:true|false|null|in)$)[_a-zA-Z][_a-zA-Z0-9]*$/;

export function variableNameProblems(spec: JsonObject): readonly Cause[] {
  return records(spec, 'variables').flatMap((variable, index) => {
    const name = text(variable, 'name');
    const at = `spec.variables[${index}].name`;
    if (name === '') return [requiredValue(at, 'name is not specified')];
    return IDENTIFIER.test(name) && !RESERVED_WORDS.has(name)
      ? []
      : [invalidValue(at, name, 'must be a valid CEL identifier')];
  });
}

function expressionsOf(spec: JsonObject): readonly Expression[] {
  const { conditions, variables, validations, auditAnnotations } = compilePolicy(spec);
  return [
    ...conditions,
    ...variables.map(({ expression }) => expression),
    ...validations.flatMap(({ expression, messageExpression }) =>
      messageExpression === undefined ? [expression] : [expression, messageExpression],
    ),
    ...auditAnnotations.map(({ expression }) => expression),
  ];
}

export function expressionProblems({ text: source, path, program }: Expression): readonly Cause[] {
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
