import { CelError } from '../../../../cel/cel.ts';
import type { JsonObject } from '../../../../json/json.ts';
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
import { labelKeyProblems } from '../../selectors/label-syntax.ts';
import { selectorProblems } from '../label-problems.ts';
import { paramKindProblems, paramRefProblems } from './param-problems.ts';
import { webhookRuleProblems } from './webhook-rule-problems.ts';

// The rules of pkg/apis/admissionregistration/validation/validation.go.

const REASONS = ['Forbidden', 'Invalid', 'RequestEntityTooLarge'];
const MOST_CONDITIONS = 64;
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
      wordProblem(validation, 'reason', REASONS, `spec.validations[${index}]`),
    ),
    ...(isEmpty
      ? [requiredValue('spec.validations', NEITHER), requiredValue('spec.auditAnnotations', NEITHER)]
      : []),
  ];
}

/** The problems of a ValidatingAdmissionPolicyBinding. */
export function bindingProblems(binding: ApiObject): readonly Cause[] {
  const spec = section(binding, 'spec');
  const actions = texts(spec, 'validationActions');
  const at = 'spec.validationActions';
  return [
    ...(text(spec, 'policyName') === '' ? [requiredValue('spec.policyName')] : []),
    ...paramRefProblems(spec),
    ...matchProblems(section(spec, 'matchResources'), 'spec.matchResources', false),
    ...(actions.length === 0 ? [requiredValue(at, 'at least one validation action is required')] : []),
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

export function matchProblems(match: JsonObject, field: string, needsRules = true): readonly Cause[] {
  const rules = (name: string) =>
    records(match, name).flatMap((rule, index) => webhookRuleProblems(rule, `${field}.${name}[${index}]`));
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
  const problems = conditions.flatMap((condition, index) => {
    const name = text(condition, 'name');
    const at = `spec.matchConditions[${index}].name`;
    if (name === '') return [requiredValue(at)];
    return labelKeyProblems(name).map((problem) => invalidValue(at, name, problem));
  });
  return [...excess, ...problems];
}

const IDENTIFIER = /^[_a-zA-Z][_a-zA-Z0-9]*$/;

export function variableNameProblems(
  spec: JsonObject,
  problem = 'name is not a valid CEL identifier',
): readonly Cause[] {
  return records(spec, 'variables').flatMap((variable, index) => {
    const name = text(variable, 'name');
    const at = `spec.variables[${index}].name`;
    if (name === '') return [requiredValue(at, 'name is not specified')];
    return IDENTIFIER.test(name) ? [] : [invalidValue(at, name, problem)];
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
  if (source === '')
    return [requiredValue(path, path.endsWith('.expression') ? 'expression is not specified' : '')];
  if (!(program instanceof CelError)) return [];
  const { message } = program;
  const detail = message.startsWith('must evaluate to') ? message : `compilation failed: ${message}`;
  return [invalidValue(path, source, detail)];
}
