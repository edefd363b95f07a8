import { InvalidPath, parsePath, type FieldPath } from '../../json/field-path.ts';
import type { Problem } from './problem.ts';

/** The path, or undefined and one more problem. */
export function tryPath(text: string, where: string, problems: Problem[]): FieldPath | undefined {
  try {
    return parsePath(text);
  } catch (error) {
    if (!(error instanceof InvalidPath)) throw error;
    problems.push(pathProblem(where, error.message));
    return undefined;
  }
}

export function pathProblem(where: string, message: string): Problem {
  return { reason: 'InvalidPath', where, message };
}
