/** What people type to run this program. */
import { basename } from 'node:path';

/**
 * kubectl runs `kubectl-gatehouse` as its plugin `gatehouse`, and help should say what was typed.
 * @param script the path that the program was started by
 * @see https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
 */
export const programName = (script = ''): string =>
  // On Windows it ends in .exe or .cmd.
  /^kubectl-gatehouse(\.|$)/.test(basename(script)) ? 'kubectl gatehouse' : 'gatehouse';
