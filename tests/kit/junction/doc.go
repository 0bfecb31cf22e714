// Package junction gives tests on Windows a folder from which a junction leads out: what the program must never follow.
//
// Windows makes one for whoever asks ([Folder]). Wine makes none, and takes for one what is mounted in Linux: there tests/kit/wine has mounted a file system, and says in
// [Variable] where. Such a junction cannot be removed or renamed.
package junction

// Variable names the folder, if it is there already, in the environment.
const Variable = "TEST_JUNCTION"

// Name is the name of the junction in the folder.
const Name = "away"
