import { definitionProblems } from '../../api/handler-definition.ts';
import { HANDLER, type Handler, type HandlerDefinition, type UntypedObject } from './handler.ts';

/** A handler: TypeScript that mutates, validates or converts objects, where an AdmissionPolicy is not enough. */
export function defineHandler<T extends object = UntypedObject>(
  definition: HandlerDefinition<T>,
): Handler<T> {
  const problems = definitionProblems(definition);
  if (problems.length > 0) throw new TypeError(`defineHandler: ${problems.join('; ')}`);
  return Object.freeze({ ...definition, [HANDLER]: true as const });
}
