import type { JsonObject } from '../../../json/json.ts';
import { label1035Problem } from '../../dns-names.ts';
import { has, record, text } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { forbiddenValue, invalidValue, requiredValue, unsupportedValue } from '../../schema/causes.ts';
import { selectorProblems } from '../label-problems.ts';
import { pathSegmentProblem } from '../name-problems.ts';

// The rules about params of pkg/apis/admissionregistration/validation/validation.go.

const ACTIONS = ['Deny', 'Allow'];

/** The problems of `spec.paramKind`. */
export function paramKindProblems(spec: JsonObject): readonly Cause[] {
  const given = record(spec, 'paramKind');
  if (given === undefined) return [];
  const [apiVersion, kind] = [text(given, 'apiVersion'), text(given, 'kind')];
  return [...versionProblems(apiVersion, 'spec.paramKind.apiVersion'), ...kindProblems(kind)];
}

function versionProblems(apiVersion: string, at: string): readonly Cause[] {
  if (apiVersion === '') return [requiredValue(at)];
  const parts = apiVersion.split('/');
  if (parts.length > 2)
    return [invalidValue(at, apiVersion, `unexpected GroupVersion string: ${apiVersion}`)];
  const problem = label1035Problem(parts.at(-1) ?? '');
  return problem === undefined ? [] : [invalidValue(at, apiVersion, problem)];
}

function kindProblems(kind: string): readonly Cause[] {
  const at = 'spec.paramKind.kind';
  if (kind === '') return [requiredValue(at)];
  const problem = label1035Problem(kind.toLowerCase());
  if (problem === undefined) return [];
  return [invalidValue(at, kind, `may have mixed case, but should otherwise match: ${problem}`)];
}

/** The problems of `spec.paramRef`. */
export function paramRefProblems(spec: JsonObject): readonly Cause[] {
  const ref = record(spec, 'paramRef');
  if (ref === undefined) return [];
  const at = 'spec.paramRef';
  const name = text(ref, 'name');
  const exclusive = 'name and selector are mutually exclusive';
  const problem = name === '' ? undefined : pathSegmentProblem(name);
  const isDouble = name !== '' && has(ref, 'selector');
  return [
    ...(problem === undefined ? [] : [invalidValue(`${at}.name`, name, problem)]),
    ...(isDouble ? ['name', 'selector'].map((field) => forbiddenValue(`${at}.${field}`, exclusive)) : []),
    ...(name === '' && !has(ref, 'selector')
      ? [requiredValue(at, 'one of name or selector must be specified')]
      : []),
    ...selectorProblems(record(ref, 'selector') ?? {}, `${at}.selector`),
    ...actionProblems(ref, `${at}.parameterNotFoundAction`),
  ];
}

function actionProblems(ref: JsonObject, at: string): readonly Cause[] {
  const action = text(ref, 'parameterNotFoundAction');
  if (action === '') return [requiredValue(at)];
  return ACTIONS.includes(action) ? [] : [unsupportedValue(at, action, ACTIONS)];
}
