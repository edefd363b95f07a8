import type { CelProgram } from '../../../cel/cel.ts';
import { createCelBudget } from '../../../cel/cel-budget.ts';
import { celValue } from '../../../cel/cel-value.ts';
import { lazyCelMap } from '../../../cel/maps.ts';
import type { AdmissionRequest } from '../../review/request.ts';

/** What of its bindings an expression reads, the variables that it uses included. */
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
  const budget = createCelBudget();
  const values: Record<string, unknown> = {};
  const evaluate: Evaluate = ({ program }) => {
    for (const name of program.names) {
      if (Object.hasOwn(values, name)) continue;
      const value = name === 'variables' ? lazyVariables(variables, evaluate) : valueOf(name, inputs);
      if (value !== undefined) values[name] = value;
    }
    return program.run(values, budget);
  };
  return evaluate;
}

/** Undefined when it is the name of no variable, but of one that a macro declares. */
function valueOf(name: string, inputs: Inputs): unknown {
  switch (name) {
    case 'object':
    case 'oldObject':
    case 'namespaceObject':
    case 'params':
      return celValue(inputs[name] ?? null);
    case 'refs':
      return celValue(inputs.refs ?? {});
    case 'request':
      return celValue(requestValue(inputs.request));
    default:
      return undefined;
  }
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
