/** Checks expressions against the schemas of the governed kinds, where these are known. */
import { compileCel, CelError, type CelVariableType } from '../../../cel/cel.ts';
import { ADMISSION_VARIABLES } from '../../../cel/match-condition.ts';
import type { JsonObject } from '../../../json/json.ts';

type Types = Readonly<Record<string, CelVariableType>>;

/** Of a Namespace: its spec and status have few fields, and newer API servers may add others. */
const NAMESPACE: CelVariableType = {
  schema: {
    type: 'object',
    properties: {
      spec: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    },
  },
};

/** The types of the variables that the policy declares, under one schema. */
interface Typing {
  readonly object: CelVariableType;
  readonly variables: Record<string, CelVariableType>;
}

/**
 * An expression is wrong if it type-checks against none of the schemas: a policy can govern several kinds and versions,
 * and an expression may be written for one of them.
 *
 * @param schemas empty if any is unknown; undefined: nothing is checked
 */
export function createTypeCheck(schemas: readonly JsonObject[] | undefined) {
  const objects: readonly CelVariableType[] =
    schemas?.length === 0 ? ['dyn'] : (schemas ?? []).map((schema) => ({ schema }));
  const typings = objects.map((object): Typing => ({ object, variables: {} }));

  const programIn = (
    { object, variables }: Typing,
    text: string,
    names: readonly string[],
    result: string,
  ) => {
    const known: Types = {
      ...ADMISSION_VARIABLES,
      ...{ object, oldObject: object, namespaceObject: NAMESPACE, variables: { fields: variables } },
    };
    const types = Object.fromEntries(names.map((name) => [name, known[name] ?? 'dyn']));
    return compileCel(text, types, result === 'any' ? {} : { result });
  };

  return {
    /** @throws CelError if the expression type-checks against none of the schemas */
    check: (text: string, names: readonly string[], result: 'bool' | 'string' | 'any'): void => {
      let first: CelError | undefined;
      for (const typing of typings) {
        try {
          programIn(typing, text, names, result);
          return;
        } catch (error) {
          if (!(error instanceof CelError)) throw error;
          first ??= error;
        }
      }
      if (first !== undefined) throw first;
    },
    /** Gives a variable of the policy its types. Those after it can use it. */
    declare: (name: string, text: string, names: readonly string[]): void => {
      for (const typing of typings) {
        try {
          typing.variables[name] = { result: programIn(typing, text, names, 'any') };
        } catch (error) {
          if (!(error instanceof CelError)) throw error;
          typing.variables[name] = 'dyn';
        }
      }
    },
  };
}
