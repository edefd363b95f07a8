import type { CelProgram } from './cel/cel.ts';
import { createCelBudget } from './cel/cel-budget.ts';
import { celValue } from './cel/cel-value.ts';
import { lazyCelMap } from './cel/maps.ts';
import type { AdmissionRequest } from './request.ts';

/** What of its surroundings an expression reads, the variables that it uses included. */
export interface Reads {
  readonly oldObject: boolean;
  readonly request: boolean;
  readonly namespaceObject: boolean;
  readonly params: boolean;
  readonly refs: boolean;
}

/** An expression of a policy that compiles. */
export interface CompiledExpression {
  readonly program: CelProgram;
  readonly reads: Reads;
}

export interface CompiledVariable {
  readonly name: string;
  readonly expression: CompiledExpression;
}

/** What expressions see, as JSON. What is undefined here is null there. */
export interface Inputs {
  readonly request: AdmissionRequest;
  readonly object: object | undefined;
  readonly oldObject: object | undefined;
  readonly namespaceObject?: object | undefined;
  readonly params?: object | undefined;
  /** A name without a target is absent. A path with `[*]` gives a list. */
  readonly refs?: Readonly<Record<string, object | readonly object[]>>;
}

/**
 * Runs an expression of the policy.
 * @throws CelError
 */
export type Evaluate = (expression: CompiledExpression) => unknown;

/** Each value is made once for all expressions, and only if one of them reads it; they share one budget of cost. */
export function createEvaluate(variables: readonly CompiledVariable[], inputs: Inputs): Evaluate {
  const made = new Map<string, unknown>();
  const budget = createCelBudget();
  const bind = (name: string, make: () => unknown): unknown => {
    if (!made.has(name)) made.set(name, make());
    return made.get(name);
  };
  const evaluate: Evaluate = ({ program }) => {
    const values: Record<string, unknown> = {};
    for (const name of program.names) {
      const make = makers.get(name);
      if (make !== undefined) values[name] = bind(name, make);
    }
    return program.run(values, budget);
  };
  const makers = new Map<string, () => unknown>([
    ['object', () => celValue(inputs.object ?? null)],
    ['oldObject', () => celValue(inputs.oldObject ?? null)],
    ['request', () => celValue(requestValue(inputs.request))],
    ['namespaceObject', () => celValue(inputs.namespaceObject ?? null)],
    ['params', () => celValue(inputs.params ?? null)],
    ['refs', () => celValue(inputs.refs ?? {})],
    ['variables', () => lazyVariables(variables, evaluate)],
  ]);
  return evaluate;
}

/** A variable that fails makes only those expressions fail that use it. */
function lazyVariables(variables: readonly CompiledVariable[], evaluate: Evaluate): object {
  return lazyCelMap(new Map(variables.map(({ name, expression }) => [name, () => evaluate(expression)])));
}

/** As in ValidatingAdmissionPolicy: the AdmissionRequest without its objects. */
function requestValue(request: AdmissionRequest): object {
  const { kind, resource, subResource, requestKind, requestResource } = request;
  const { name, namespace, operation, userInfo, dryRun, options } = request;
  return {
    kind,
    resource,
    subResource,
    requestKind,
    requestResource,
    requestSubResource: subResource,
    name: name ?? '',
    namespace: namespace ?? '',
    operation,
    userInfo,
    dryRun,
    ...(options === undefined ? {} : { options }),
  };
}
