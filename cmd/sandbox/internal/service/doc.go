// Package service has the commands that look after what runs in a session: 'sandbox
// service' and 'sandbox kill'. They ask the session that has the folder; it is an error
// if there is none. What a service has written is given to the user's terminal as it is,
// like the output of a command.
package service
