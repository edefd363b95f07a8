/** What to do when the API server says no. */
import { ApiError } from '../../kube/api-error.ts';

const RESOURCE = 'restorewindows.gatehouse.dev';

/** @returns a sentence; undefined when what the API server says is all there is to say */
export function hintFor(error: unknown): string | undefined {
  const refusal = apiErrorIn(error);
  if (refusal === undefined) return undefined;
  const { code, reason, message, request } = refusal;
  if (message.includes('failed calling webhook'))
    return 'Gatehouse does not answer, and without it no window is opened or changed: look at its pods, in gatehouse-system by default';
  if (reason === 'AlreadyExists')
    return 'choose another name: a window that was there before is never opened again';
  if (code === 403 && !message.includes('admission webhook'))
    return `ask for the verb "${VERBS[request.method] ?? 'get'}" on ${RESOURCE}`;
  if (code === 404 && request.path.endsWith('/restorewindows'))
    return 'this cluster knows no RestoreWindows: install Gatehouse first (kubectl apply -k deploy), or choose another --context';
  return undefined;
}

const VERBS: Readonly<Record<string, string>> = { GET: 'get" and "list', POST: 'create', PATCH: 'patch' };

function apiErrorIn(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error;
  return error instanceof Error && error.cause !== undefined ? apiErrorIn(error.cause) : undefined;
}
