package mcp

// What a model reads before it calls anything. docs/mcp.md repeats none of it.

const instructions = `This server runs commands and edits files inside a sandbox on the user's real working folder. Every command and every write is a step that can be undone exactly (contents, deletions, renames, permissions).

- Run builds, tests, git and anything else with execute_command; it sees the same files as the file tools.
- Start servers and watchers with start_service: they run beside your commands, and service_output shows what they write.
- Prefer read_file, edit_file and write_file for single files, grep and glob to find things.
- If a step did the wrong thing, call undo instead of repairing by hand; get_undo_history and diff show what was changed.
- Large deletions or overwrites may be held until a person approves. You cannot approve them. If a result has outcome pending_approval, tell the user what it says and fetch the result later with get_result.
- If undo is blocked because the user edited files meanwhile, ask before you use force.
- Paths are relative to the working folder; get_session_status lists the folders when there are several.`

const (
	descCommand = `Run a shell command (sh -c) in the sandbox, in the working folder, and wait for its end. Returns stdout, stderr, exit code, and which paths it changed; a failing command is a normal result with a non-zero exit_code. Each call is one step: undo reverts everything it changed. Nothing stays between calls but files: set the directory with cwd and variables with env. There is no terminal and no input: use flags such as --yes. The command is ended after timeout_seconds (default 120, at most 3600); what it did until then is kept and can be undone. Start servers with start_service. Of long output the beginning and the end are returned. Commands of calls that are made at the same time run at the same time, and are one step together.`

	descResult = `Fetch the result of a call that returned outcome pending_approval, by its handle. Waits for the end for up to wait_seconds (default 30). Results are kept for ten minutes after the end.`

	descWrite = `Create a file or replace its whole content; missing directories are made. One undoable step (while a command runs it belongs to that command's step). Use edit_file for changes to a part of a file. At most about 700 KB at once.`

	descEdit = `Replace exact pieces of text in a file. Each old_text must occur exactly once, as it is in the file with all white space, unless replace_all is set; otherwise nothing is changed. Returns a unified diff. One undoable step. With dry_run only the diff is made.`

	descRead = `Read a text file, by lines. At most 2000 lines or 256 KB at once; go on with offset as told by next_offset. Binary files need encoding base64. Lines are returned as they are, so that they can be copied into edit_file.`

	descList = `List the entries of a directory with type and size, sorted by path; depth lists subdirectories too. To find files by name use glob.`

	descGlob = `Find files by a pattern, newest first: **/*.ts, src/**/*_test.go. Skips .git and what .gitignore excludes.`

	descGrep = `Search file contents by a regular expression (RE2). output_mode files_with_matches returns paths, content the matching lines with numbers and context, count the number of matches in each file. Skips binary files, .git and what .gitignore excludes.`

	descUndo = `Put the working folder back as it was before the newest step, or the newest count steps: contents, deletions, creations, renames and permissions. It undoes commands and writes alike. Blocked if somebody edited the same files outside the sandbox since; force overwrites those edits, so ask the user first. dry_run tells what would happen. redo takes it back.`

	descRedo = `Do again what undo took back, newest undo first; possible until the next step is made. Not for a step that was rolled back while it ran: only the user can do that again. dry_run tells what would happen.`

	descMark = `Name the place after the newest step, so that undo with "to" leads back to it: set one before a risky series of commands. Without a name it lists the marks.`

	descDiff = `Show as a unified diff what a step changed, or, without step_id, everything since the oldest step that is kept. Use it to review your work.`

	descHistory = `List the steps that can be undone, newest first: their ids, commands and changed paths. Edits from outside the sandbox are listed between them as barriers.`

	descStartService = `Start a command that goes on, such as a dev server or a watcher, and return at once. It holds no step open: what it writes belongs to the step that is open at the time, or to a step of its own. It ends with stop_service, by itself, or with the session. It has no terminal and no input. publish lets the user's browser connect to its ports.`

	descServiceOutput = `Read the newest of what a service has written to stdout and stderr, also after its end, and whether it still runs.`

	descStopService = `Stop a service: TERM, and KILL after 2 seconds. Returns when it has ended.`

	descListServices = `List the services: name, command, state, exit code, published ports.`

	descStatus = `Show the session's state: isolation, working folders (index, path, label, access), the running step, decisions that wait for a person, and results that can be fetched.`
)
