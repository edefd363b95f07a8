import type { UntypedObject } from '../admission/handlers/handler.ts';
import { controllerProblems } from '../api/controller-definition.ts';
import { CONTROLLER, type Controller, type ControllerDefinition } from './controller.ts';

/** A controller: TypeScript that brings the world to the state that each object of a kind describes. */
export function defineController<T extends object = UntypedObject>(
  definition: ControllerDefinition<T>,
): Controller<T> {
  const problems = controllerProblems(definition);
  if (problems.length > 0) throw new TypeError(`defineController: ${problems.join('; ')}`);
  return Object.freeze({ ...definition, [CONTROLLER]: true as const });
}
