import { CelError, type CelProgram, readsField } from '../../../cel/cel.ts';
import { CelCostError } from '../../../cel/cel-error.ts';
import { CEL_COST_LIMIT, type CelBudget, celValue, lazyCelMap } from '../../../cel/values/values.ts';
import { type CelAuthorize, authorizerValues, CHECK_COST } from '../../../cel/library/authorizer.ts';
import { parseExpression } from '../../../cel/syntax/parse.ts';
import { readPaths, type ReadStep } from '../../../cel/syntax/used-fields.ts';
import { memoizeWeak } from '../../../json/json.ts';
import type { AdmissionRequest } from '../../review/request.ts';

export interface Reads {
  readonly oldObject: boolean;
  readonly request: boolean;
  readonly authorizer: boolean;
  readonly namespaceObject: boolean;
  readonly params: boolean;
  /** Names of references. */
  readonly refs: ReadonlySet<string>;
}

export const allReads = (all: readonly Reads[]): Reads => ({
  oldObject: all.some(({ oldObject }) => oldObject),
  request: all.some(({ request }) => request),
  authorizer: all.some(({ authorizer }) => authorizer),
  namespaceObject: all.some(({ namespaceObject }) => namespaceObject),
  params: all.some(({ params }) => params),
  refs: new Set(all.flatMap(({ refs }) => [...refs])),
});

export interface CompiledExpression {
  readonly program: CelProgram;
  readonly reads: Reads;
}

export interface CompiledVariable {
  readonly name: string;
  readonly expression: CompiledExpression;
}

interface Variables {
  readonly variables: readonly CompiledVariable[];
}

/** The variables that the programs use, directly or through others, in their order. */
export const variablesOf = ({ variables }: Variables, programs: readonly CelProgram[]) =>
  // A variable can use only the variables before it.
  variables.reduceRight<readonly CompiledVariable[]>((used, variable) => {
    const readers = [...programs, ...used.map(({ expression }) => expression.program)];
    return readers.some((one) => readsField(one, 'variables', variable.name)) ? [variable, ...used] : used;
  }, []);

/** The programs, and those of the variables that they use. */
export const withVariables = (policy: Variables, programs: readonly CelProgram[]): readonly CelProgram[] => [
  ...programs,
  ...variablesOf(policy, programs).map(({ expression }) => expression.program),
];

/** The parts of `object` that the expression itself reads. */
export const pathsIn = memoizeWeak(({ expression }: Pick<CelProgram, 'expression'>) =>
  readPaths(parseExpression(expression).expression, 'object'),
);

/** Including those that it reads through variables. */
export const stepsIn = (policy: Variables, program: CelProgram): readonly (readonly ReadStep[])[] =>
  withVariables(policy, [program]).flatMap(pathsIn);

/** The variables of expressions, as JSON. Undefined becomes null. */
export interface Inputs {
  readonly request: AdmissionRequest;
  readonly object: object | undefined;
  readonly oldObject: object | undefined;
  readonly namespaceObject?: object | undefined;
  readonly params?: object | undefined;
  /** Targets by reference name. Missing targets are left out; a path with `[*]` yields a list. */
  readonly refs?: Readonly<Record<string, object | readonly object[]>>;
  /** Answers the questions of `authorizer`. Absent: asking is an error. */
  readonly authorize?: CelAuthorize | undefined;
  /** References whose target counts as unknown: reading it throws {@link UnknownTarget}. */
  readonly unknownRefs?: ReadonlySet<string>;
}

/** The result of the expression depends on a target that does not exist. */
export class UnknownTarget extends CelError {
  override name = 'UnknownTarget';
}

/** @throws CelError */
export type Evaluate = (expression: CompiledExpression) => unknown;

/** Converts each value once, when an expression first reads it. All expressions of a review share one cost budget. */
export function createEvaluate(
  variables: readonly CompiledVariable[],
  inputs: Inputs,
  budget: CelBudget,
): Evaluate {
  const values: Record<string, unknown> = {};
  /** How often the current expression has asked. */
  let checks = 0;
  const authorize: CelAuthorize = (question) => {
    checks += 1;
    if (checks > MOST_CHECKS)
      throw new CelCostError(`an expression may ask the authorizer ${MOST_CHECKS} times`);
    budget.remaining += CHECK_COST; // the API server limits each expression, and this budget is that of a request
    return (inputs.authorize ?? noAuthorizer)(question);
  };
  // An error in a variable affects only the expressions that use it.
  const lazyVariables = () =>
    lazyCelMap(new Map(variables.map(({ name, expression }) => [name, () => evaluate(expression)])));
  const evaluate: Evaluate = ({ program }) => {
    if (program.names.has('authorizer')) {
      const { resource, subResource: subresource, namespace = '', name = '' } = inputs.request;
      Object.assign(values, authorizerValues(authorize, resource, { subresource, namespace, name }));
    }
    for (const name of program.names) {
      if (Object.hasOwn(values, name)) continue;
      const value = name === 'variables' ? lazyVariables() : valueOf(name, inputs);
      if (value !== undefined) values[name] = value;
    }
    const outer = checks;
    checks = 0;
    try {
      return program.run(values, budget);
    } finally {
      checks = outer;
    }
  };
  return (expression) => {
    const left = Math.min(budget.remaining, budget.time);
    try {
      return evaluate(expression);
    } catch (error) {
      const isLimit = error instanceof CelCostError && error.message === new CelCostError().message;
      throw isLimit ? new CelCostError(overBudget(left)) : error;
    }
  };
}

/** The API server's cost limit allows two checks. */
const MOST_CHECKS = 2;

const noAuthorizer: CelAuthorize = () => {
  throw new CelError('there is no API server to ask');
};

const overBudget = (left: number): string =>
  `it costs more than ${left}; all expressions for one request may cost ${CEL_COST_LIMIT}, and those before it used ` +
  `${CEL_COST_LIMIT - left}: make the object smaller, or simplify the expressions`;

/** Undefined for a variable that a macro declares. */
function valueOf(name: string, inputs: Inputs): unknown {
  switch (name) {
    case 'object':
    case 'oldObject':
    case 'namespaceObject':
    case 'params':
      return celValue(inputs[name] ?? null);
    case 'refs':
      return refsValue(inputs);
    case 'request':
      return celValue(requestValue(inputs.request));
    default:
      return undefined;
  }
}

function refsValue({ refs = {}, unknownRefs }: Inputs): unknown {
  if (unknownRefs === undefined) return celValue(refs);
  const known = Object.entries(refs).map(([name, value]) => [name, () => celValue(value)] as const);
  const unknown = Array.from(unknownRefs, (name) => {
    const fail = () => {
      throw new UnknownTarget(`the target of refs.${name} does not exist`);
    };
    return [name, fail] as const;
  });
  return lazyCelMap(new Map([...known, ...unknown]));
}

/** The AdmissionRequest without its objects, the way ValidatingAdmissionPolicy shows it: empty fields are absent. */
function requestValue(request: AdmissionRequest): object {
  const { kind, resource, subResource, requestKind, requestResource } = request;
  const { sent: { name: sentName, namespace } = request, operation, userInfo, dryRun, options } = request;
  // The API server omits the name when it deletes a collection, but a rule on the name applies to each object.
  const name = operation === 'DELETE' ? request.name : sentName;
  const { username, uid, extra, ...user } = userInfo;
  return {
    kind,
    resource,
    requestKind,
    requestResource,
    operation,
    dryRun,
    ...(subResource === '' ? {} : { subResource, requestSubResource: subResource }),
    ...(name === undefined || name === '' ? {} : { name }),
    ...(namespace === undefined || namespace === '' ? {} : { namespace }),
    userInfo: {
      ...user,
      ...(username === '' ? {} : { username }),
      ...(uid === '' ? {} : { uid }),
      ...(Object.keys(extra).length === 0 ? {} : { extra }),
    },
    ...(options === undefined ? {} : { options }),
  };
}
