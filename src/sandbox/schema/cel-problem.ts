import { CelError } from '../../cel/cel.ts';

/**
 * Why an expression does not compile, in the API server's words.
 *
 * @throws whatever is no CelError
 */
export function celProblem(error: unknown): string {
  if (!(error instanceof CelError)) throw error;
  return `compilation failed: ${error.message}`;
}
