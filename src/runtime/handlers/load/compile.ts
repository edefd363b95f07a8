import {
  compileHandler,
  type CompiledHandler,
  type HandlerEnvironment,
} from '../../../admission/handlers/compile-handler.ts';
import { InvalidHandlers, type LoadedHandler } from './load.ts';

/** @throws InvalidHandlers with everything that keeps one of them from being used, by file */
export function compileHandlers(
  loaded: readonly LoadedHandler[],
  environment: HandlerEnvironment,
): readonly CompiledHandler[] {
  const results = loaded.map(({ name, origin, handler }) => ({
    origin,
    result: compileHandler(name, handler, environment),
  }));
  const problems = results.flatMap(({ origin, result }) =>
    result.kind === 'rejected' ? result.problems.map((problem) => `${origin}: ${problem}`) : [],
  );
  if (problems.length > 0) throw new InvalidHandlers(problems.join('\n'));
  return results.flatMap(({ result }) => (result.kind === 'compiled' ? [result.handler] : []));
}
